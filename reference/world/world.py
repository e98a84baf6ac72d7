"""Worlds: the only way processes start. One process a role, one rendezvous, one deadline, one log a role.

    with launch(roles(case), deadline=60) as world:
        outcomes = world.wait()        # {"ps": Returned(...), "trainer1": Returned(...), ...}

Roles come from one forkserver that has torch and its launcher's tutorials loaded. A function that is sent to a role is
named, not copied: it must stand at the top of a module that the role can import.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch.distributed.rpc as rpc

from reference.outcome import Outcome, Returned, RoleFailed, WorldError
from reference.system import temporary_folders
from reference.system.printable import shown
from reference.world import shutdown_barrier
from reference.world.grace import SECONDS
from reference.world.network_interface import listen_towards
from reference.world.role import Post, prepare_process
from reference.world.rpc_agent import chosen_options, listen_on_loopback, start_agent
from reference.world.start import check, check_deadline, check_main, network, packed, prepared, start
from reference.world.supervisor import Progress, Seat, Supervisor

__all__ = ["World", "WorldError", "launch", "run_rank"]

Function = Callable[..., object]

# Those that this process has launched and not closed.
alive: weakref.WeakSet[World] = weakref.WeakSet()

# Kept of each log when the world's folder goes (bytes).
LOG_TAIL = 1 << 16


class World:
    """The processes of one run. Made by `launch`; leaving its ``with`` block ends every role at once."""

    def __init__(
        self,
        seats: dict[str, Seat],
        folder: Path,
        *,
        keep: bool,
        idle: bool,
        on_progress: Progress | None,
        grace: float,
        isolated: bool,
    ) -> None:
        self.folder = folder
        # Whether its roles have a network of their own.
        self.isolated = isolated
        self._seats = seats
        self._idle = idle
        self._tails: dict[str, str] = {}
        # Also for a world that nobody closed: when it is collected, or when this interpreter exits.
        self._clean = weakref.finalize(self, _clean, seats, folder, keep)
        self._supervisor = Supervisor(seats, on_progress, grace)
        try:
            self._supervisor.start()
        except RuntimeError as error:
            raise WorldError(f"the roles cannot be watched: {error}") from error
        alive.add(self)

    @property
    def pids(self) -> dict[str, int]:
        """Each role's process id, which is also its process group."""
        return {name: seat.pid for name, seat in self._seats.items()}

    @property
    def outcomes(self) -> dict[str, Outcome]:
        """How the roles that have ended so far did end."""
        return {name: seat.outcome for name, seat in self._seats.items() if seat.outcome is not None}

    @property
    def busy(self) -> bool:
        """Whether a role still plays, or, of idle ones, has a call to answer."""
        return any(seat.calls or not self._idle for seat in self._seats.values() if seat.outcome is None)

    @property
    def ended(self) -> dict[str, float]:
        """When the roles that have ended so far did end (`time.monotonic`, seconds)."""
        return {name: seat.ended for name, seat in self._seats.items() if seat.ended is not None}

    def wait(self) -> dict[str, Outcome]:
        """Every role's outcome, when all have one: at the latest 6 s after the deadline.

        A death is seen when it happens. Once a role is lost and all others wait in vain for a common start
        or shutdown, these raise `PeerLost`. Idle roles (see `launch`) are told to shut down.
        """
        if self._idle:
            for seat in self._seats.values():
                seat.send("stop")
        self._supervisor.wait()
        if self._supervisor.error is not None:
            raise WorldError(f"the world's supervisor failed: {self._supervisor.error}") from self._supervisor.error
        return self.outcomes

    def call(self, role: str, function: Function, *args: object, deadline: float = 60) -> Any:
        """Run ``function(*args)`` on an idle role and return its value.

        Raises:
            RoleFailed: it raised, or the role ended; a role that misses ``deadline`` (seconds) is ended.
            WorldError: no such role, not an idle one, one that has shut down, or a function that cannot be sent.
        """
        outcome = self._submit(role, function, args, deadline).result()
        if not isinstance(outcome, Returned):
            raise RoleFailed(role, outcome)
        return outcome.value

    def run(self, roles: Mapping[str, Function], *, deadline: float = 60) -> dict[str, Outcome]:
        """Play ``roles`` on the idle roles of those names, at once, and wait for each one's outcome."""
        for name in roles:
            self._check_call(name, deadline)
        futures = {name: self._submit(name, function, (), deadline) for name, function in roles.items()}
        return {name: future.result() for name, future in futures.items()}

    def log(self, role: str, tail: int | None = None) -> str:
        """What the role has written to its standard output and error; after the world's end the last 64 KiB.

        ``tail``: only so many bytes from the end.
        """
        if role in self._tails:
            return self._tails[role]
        with suppress(FileNotFoundError), (self.folder / f"{role}.log").open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0 if tail is None else max(0, size - tail))
            return file.read().decode(errors="replace")
        return ""

    def expire(self) -> dict[str, Outcome]:
        """Take every role that has not ended for overdue now: each writes its stacks and is ended, within 6 s."""
        self._supervisor.expire()
        self._supervisor.wait()
        return self.outcomes

    def close(self) -> None:
        """End every role that has not ended. Nothing is left: no process, no file unless a folder was given."""
        alive.discard(self)
        _kill(self._seats)
        self._supervisor.wait()
        self._tails = {name: self.log(name, LOG_TAIL) for name in self._seats}
        self._clean()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _submit(self, role: str, function: Function, args: tuple[object, ...], deadline: float) -> Future[Outcome]:
        self._check_call(role, deadline)
        return self._supervisor.submit(role, packed(f"the call to {role}", (function, args)), deadline)

    def _check_call(self, role: str, deadline: float) -> None:
        check_deadline(deadline)
        if role not in self._seats:
            raise WorldError(f"no role {role!r}, wanted one of {', '.join(self._seats)}")
        if not self._idle:
            raise WorldError(f"{role} plays a function of its own: only a world launched with names takes calls")


def launch(
    roles: Mapping[str, Function] | Sequence[str],
    *,
    deadline: float = 60,
    before: Callable[[str], object] | None = None,
    backend: str | None = None,
    options: Mapping[str, Any] | None = None,
    threads: int = 1,
    folder: str | os.PathLike[str] | None = None,
    on_progress: Progress | None = None,
    grace: float = SECONDS,
    isolated: bool = False,
) -> World:
    """Start one process per role. A mapping plays its functions; mere names wait for `World.call`.

    Args:
        roles: name to function, called without arguments once RPC is up; ranks follow this order.
        deadline: seconds, of the whole world, until a role that has not ended is dumped, killed and `Overdue`;
            idle roles too, so give these as long as they are wanted.
        before: called with the role's name in each process before RPC starts.
        backend: a registered RPC backend's name; TENSORPIPE by default.
        options: keyword arguments of that backend's options, over the roles' own and `rpc_agent.LOCAL_OPTIONS`.
        threads: what ``torch.set_num_threads`` is given in each role.
        folder: where rendezvous and logs go and stay; by default a temporary one, removed at the end.
        on_progress: called in a thread of this process with (role, {"step", "steps", "loss", "time"}), the last
            by `time.monotonic`.
        grace: seconds for a role that is not overdue yet, but stuck in the start of RPC, or stopped by a signal when
            another role has ended and the rest can only wait: then it is dumped, killed and `Overdue` too, which says
            why. Not less than a start takes: one in which roles still answer has six times as long.
        isolated: the roles run in a network that only the isolated worlds of this process share: nothing outside can
            connect to them, and they can connect to nothing outside. Where the kernel does not allow such a network,
            ``World.isolated`` is False and the world is like any other (docs/security.md).

    Raises:
        WorldError: something that cannot start, in one line; then no process was started.
    """
    check_main()
    names = list(roles) if isinstance(roles, Mapping) else roles
    check(names, deadline, threads, options)
    check_deadline(grace, "a grace")
    if not isinstance(isolated, bool):
        raise WorldError(f"isolated is True or False, got {isolated!r}")
    functions = dict(roles) if isinstance(roles, Mapping) else {}
    for name, function in functions.items():
        if not callable(function):
            raise WorldError(f"{name}: wanted a function, got {function!r}")
    sent = {name: packed(name, function) for name, function in functions.items()}
    prologue = None if before is None else packed("before", before)
    chosen = {name: chosen_options(roles, name, backend, options) for name in names}
    place = prepared(folder, names)
    post = partial(
        Post,
        world_size=len(names),
        folder=place,
        launcher=os.getpid(),
        before=prologue,
        backend=backend,
        threads=threads,
        progress=on_progress is not None,
    )
    paths: tuple[str, ...] = ()
    seats: dict[str, Seat] = {}
    due = time.monotonic() + deadline
    try:
        if isolated:
            paths = network().paths
        for rank, name in enumerate(names):
            told = post(name=name, rank=rank, function=sent.get(name), options=chosen[name], network=paths)
            seats[name] = start(told)
            seats[name].due = due
        how = {"keep": folder is not None, "idle": not functions, "isolated": bool(paths)}
        return World(seats, place, **how, on_progress=on_progress, grace=grace)
    except BaseException:
        for seat in seats.values():
            seat.kill()
            seat.end()
        _clean(seats, place, folder is not None)
        raise


def run_rank(
    roles: Mapping[str, Function],
    *,
    deadline: float = 3600,
    before: Callable[[str], object] | None = None,
    backend: str | None = None,
    options: Mapping[str, Any] | None = None,
    threads: int = 1,
) -> tuple[str, object]:
    """Play, in this process, the role of its own rank, as started by ``torchrun``: (role, what it returned).

    Reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Roles take ranks in their order. If LOCAL_WORLD_SIZE says
    that all are on one machine, RPC and gloo listen on loopback only; else on the interface towards MASTER_ADDR
    only, unless TP_SOCKET_IFNAME and GLOO_SOCKET_IFNAME say another (torchrun's own store is torchrun's affair).
    torchrun ends the other ranks of a machine when one dies; those of other machines see it themselves.

    Raises:
        WorldError: not under torchrun, or another number of processes than of roles.
        PeerLost: another rank ended before its role's function had returned; or not all did within ``deadline``
            seconds of this one.
        RuntimeError: the shutdown took longer than ``deadline`` seconds.
    """
    for variable in ("RANK", "WORLD_SIZE", "MASTER_PORT"):
        if number_in(variable) is None:
            given = shown(os.environ.get(variable))
            raise WorldError(f"not started by torchrun: {variable} is {given}, wanted a number")
    if "MASTER_ADDR" not in os.environ:
        raise WorldError("not started by torchrun: MASTER_ADDR is not set")
    rank, size, port = (int(os.environ[variable]) for variable in ("RANK", "WORLD_SIZE", "MASTER_PORT"))
    if rank >= size or not 0 < port < 65536:
        raise WorldError(f"not started by torchrun: rank {rank} of {size}, port {port}")
    names = list(roles)
    check(names, deadline, threads, options)
    if size != len(names):
        raise WorldError(f"torchrun started {size} processes, wanted {len(names)}: {', '.join(names)}")
    name = names[rank]
    if os.environ.get("LOCAL_WORLD_SIZE") == os.environ["WORLD_SIZE"]:
        listen_on_loopback()
    else:
        listen_towards(os.environ["MASTER_ADDR"])
    prepare_process(name, threads)
    shutdown_barrier.prepare(names)
    if before is not None:
        before(name)
    start_agent(name, rank, size, "env://", backend, chosen_options(roles, name, backend, options))
    with shutdown_barrier.mustered(name, names, deadline):
        value = roles[name]()
    rpc.shutdown(timeout=deadline)
    return name, value


def number_in(variable: str) -> int | None:
    """The whole number, of nine digits at most, that an environment variable holds; None where it holds none."""
    text = os.environ.get(variable, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def _kill(seats: Mapping[str, Seat]) -> None:
    for seat in seats.values():
        if seat.outcome is None:
            seat.kill()


def _clean(seats: Mapping[str, Seat], place: Path, keep: bool) -> None:
    _kill(seats)
    if not keep:
        temporary_folders.remove(place)
