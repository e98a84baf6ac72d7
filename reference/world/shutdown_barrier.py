"""Let processes without a launcher wait for each other before the common shutdown, and tell them if one dies meanwhile.

``rpc.shutdown()`` by itself waits for a dead peer until its timeout. Here the first rank has a call open to every
other rank, which fails when that rank's process ends. Every rank that has finished has one call open to the first rank.
All of it goes over RPC itself, so nothing has to be prepared, and it holds on several machines.
"""

from __future__ import annotations

import enum
import re
import sys
import sysconfig
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import torch.distributed.rpc as rpc
from torch._C._distributed_rpc import _get_current_rpc_agent

from reference.outcome import PeerLost
from reference.system.interrupts import TimeLimit


class Phase(enum.StrEnum):
    """The phases up to `FINISHED` are reported by the role itself; its launcher sets the others."""

    STARTING = enum.auto()  # the process imports the launching script
    JOINING = enum.auto()  # the role starts RPC
    RUNNING = enum.auto()  # the role plays its function
    FINISHED = enum.auto()  # the function has returned, and only the common shutdown is left
    TOLD = enum.auto()  # the role was told that another role is lost
    SILENT = enum.auto()  # the role's pipe is closed: it reports nothing more
    GIVEN_UP = enum.auto()  # the role is ended before its deadline
    ENDED = enum.auto()


# The phases in which a role can only wait for others.
WAITING = (Phase.STARTING, Phase.JOINING, Phase.FINISHED, Phase.TOLD)


# Files that belong to no program. Packages may be installed below the standard library.
_LIBRARIES = (str(Path(torch.__file__).parent), str(Path(__file__).parent), "<frozen ")
_STDLIB = sysconfig.get_path("stdlib")


@dataclass(frozen=True)
class PeerState:
    """What one process answers. ``open_calls``: calls of its program that its last count waits for.

    ``place`` is where its main thread is.

    ``error``: why it does not answer; ``gone``: and never will.
    """

    name: str
    entered: bool = False
    open_calls: int = 0
    place: str = ""
    error: str = ""
    gone: bool = False

    def __str__(self) -> str:
        return f"{self.name} {self.error or f'has not called it (its main thread is {self.place})'}"


def state_of_this_process(entered: bool, open_calls: int) -> PeerState:
    """The state of this process. ``entered``: it has begun its shutdown."""
    main = sys._current_frames().get(threading.main_thread().ident or 0)
    return PeerState(rpc.get_worker_info().name, entered, open_calls, place_of(main))


def place_of(frame: FrameType | None) -> str:
    """Name the innermost function outside of libraries: ``in step at train.py:41``. If there is none, the innermost."""
    return place_in_program(frame) or (_place(frame) if frame else "at its end")


def place_in_program(frame: FrameType | None) -> str:
    """Name the innermost function outside of libraries; empty if there is none."""
    while frame is not None and _of_a_library(frame.f_code.co_filename):
        frame = frame.f_back
    return _place(frame) if frame else ""


def _place(frame: FrameType) -> str:
    return f"in {frame.f_code.co_name} at {Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def _of_a_library(file: str) -> bool:
    return file.startswith(_LIBRARIES) or (file.startswith(_STDLIB) and "site-packages" not in file)


def call_all(
    names: Iterable[str], function: Callable[..., Any], args: Sequence[object], seconds: float
) -> dict[str, Any]:
    """Call ``function`` on all of these at once: what each returned, or the RuntimeError of its call."""
    calls = {name: _call(name, function, args, seconds) for name in names}
    return {name: _result(call) for name, call in calls.items()}


def _call(name: str, function: Callable[..., Any], args: Sequence[object], seconds: float) -> Any:
    try:
        return rpc.rpc_async(name, function, args=tuple(args), timeout=seconds)
    except RuntimeError as error:  # known to be gone
        return error


def _result(call: Any) -> Any:
    try:
        return call if isinstance(call, RuntimeError) else call.wait()
    except RuntimeError as error:
        return error


def ask(state: Callable[[], PeerState], names: Iterable[str], own: str, seconds: float) -> list[PeerState]:
    """What ``state`` returns in each process but ``own``; of one that does not answer within ``seconds``, why."""
    others = [name for name in names if name != own]
    answers = call_all(others, state, (), seconds)
    return [each if isinstance(each, PeerState) else _silent(name, each, seconds) for name, each in answers.items()]


def _silent(name: str, error: RuntimeError, seconds: float) -> PeerState:
    if is_timeout(error):
        return PeerState(name, error=f"does not answer within {seconds:.1f} s")
    return PeerState(name, error=f"is gone: {first_line(error)}", gone=True)


def is_timeout(error: BaseException) -> bool:
    return str(error).startswith("RPCErr:1:")


def first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


# Seconds in which the first rank hears of a death that another rank has noticed; and in which others are told of it.
NEWS_SECONDS = 1.0
# How a call fails that its callee could not even read, because a module is not there.
_UNREADABLE = re.compile(r"Error on Node \d+: ")

Done = torch.futures.Future[str | None]  # None, or a text that names the lost rank


class ShutdownBarrier:
    """One process's part in the end of its world. The first rank's knows who has not finished, and who was lost."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        self.lock = threading.Lock()
        self.missing = set(names)
        self.lost: str | None = None
        # What another process has told of a failure.
        self.news: str | None = None
        self.ended: Done = torch.futures.Future()
        # Completes once this process need not be watched any longer.
        self.released: torch.futures.Future[None] = torch.futures.Future()
        self.watching = False
        # Whether this process has begun its shutdown.
        self.entered = False
        # The calls of this process that the last count of open calls waits for; None before that.
        self.open_calls: int | None = None
        self.known = threading.Event()

    def watch(self) -> None:
        """Notice, on the first rank, when another process ends; not when it is stopped, or its connection is cut."""
        with self.lock:
            begun, self.watching = self.watching, True
        for name in [] if begun else self.names[1:]:
            rpc.rpc_async(name, until_released, timeout=0).add_done_callback(partial(self._heard, name))

    def finished(self, name: str) -> Done:
        """Note that ``name`` has finished. The returned future completes when all have, or when one is lost."""
        with self.lock:
            self.missing.discard(name)
            last = not self.missing and self.lost is None
        if last:
            self._tell(None)
        return self.ended

    def _heard(self, name: str, call: torch.futures.Future[None]) -> None:
        try:
            call.value()
        except Exception as error:
            self.lose(gone(name, error))

    def lose(self, text: str) -> None:
        """End the wait of all ranks, unless all had finished or a rank was lost before."""
        with self.lock:
            first = bool(self.missing) and self.lost is None
            if first:
                self.lost = text
        if first:
            self._tell(text)

    def _tell(self, text: str | None) -> None:
        self.ended.set_result(text)
        self.known.set()  # after the answers, which must be sent before RPC ends

    def close(self, text: str) -> None:
        """Complete no future any more: torch crashes if one is completed after RPC has ended."""
        self.lose(text)
        if self.lost is not None:
            self.known.wait(NEWS_SECONDS)


_lock = threading.Lock()
# The barrier of the world in which this process is, with that world's store, which no other world has.
_present: list[tuple[Any, ShutdownBarrier]] = []


def here() -> ShutdownBarrier:
    """This process's barrier, made when it is first asked for in a world: often by another rank."""
    agent: Any = _get_current_rpc_agent()
    with _lock:
        if not _present or _present[0][0] is not agent.store:
            names = [info.name for info in sorted(agent.get_worker_infos(), key=lambda info: info.id)]
            _present[:] = [(agent.store, ShutdownBarrier(names))]
        return _present[0][1]


def forget() -> None:
    """Let the store of a world go that has ended."""
    _present.clear()


@rpc.functions.async_execution  # type: ignore[untyped-decorator]
def until_released() -> torch.futures.Future[None]:
    """Runs on every rank except the first, until that rank is released. It occupies no thread."""
    return here().released


@rpc.functions.async_execution  # type: ignore[untyped-decorator]
def finished(name: str) -> torch.futures.Future[str | None]:
    """Runs on the first rank: `ShutdownBarrier.finished`. With the first rank that has finished all are watched."""
    here().watch()
    return here().finished(name)


def state() -> PeerState:
    """Runs on a rank that is asked where it is."""
    return state_of_this_process(here().entered, here().open_calls or 0)


def lose(text: str) -> None:
    """Runs on a rank that has to hear that the common shutdown has failed, and why."""
    barrier = here()
    barrier.news = barrier.news or text
    barrier.lose(text)


def who_is_lost() -> str | None:
    """Runs on the first rank, which hears of a death at about the time when calls of other ranks fail because of it."""
    here().known.wait(NEWS_SECONDS)
    return here().lost


def gone(name: str, error: Exception) -> str:
    """Say in one line that a call to ``name`` has failed for good."""
    text = first_line(error)
    if unreadable := _UNREADABLE.match(text):
        return f"{name} cannot take part in the shutdown: {text[unreadable.end() :]}"
    return f"{name} is gone: {text}"


def wait_for_all_ranks(limit: TimeLimit) -> None:
    """Wait until all ranks have come to this function.

    Raises:
        PeerLost: a rank ended before it had come, or another gave up waiting, or not all came within the limit.
    """
    barrier = here()
    barrier.entered = True
    try:
        lost = barrier.lost or rpc.rpc_sync(
            barrier.names[0], finished, args=(rpc.get_worker_info().name,), timeout=limit.left_to_wait()
        )
    except RuntimeError as error:
        lost = _give_up(limit, error)
        raise PeerLost(lost) from error
    if lost is not None:
        if rpc.get_worker_info().name == barrier.names[0]:
            inform(lost, limit.left() / 2)
        raise PeerLost(lost)
    barrier.released.set_result(None)


def _give_up(limit: TimeLimit, error: RuntimeError) -> str:
    """Say why not all ranks have come, and tell the others that this rank leaves."""
    barrier, own = here(), rpc.get_worker_info().name
    if not is_timeout(error):
        return barrier.news or gone(barrier.names[0], error)  # that rank may have told why it leaves
    states = ask(state, barrier.names, own, limit.left() / 2)
    absent = [each for each in states if not each.entered]
    missing = "; ".join(map(str, absent))
    why = f"shutdown timed out after {limit.seconds:g} s: {missing or 'the last one has come too late'}"
    others_why = barrier.news if not missing or any(each.gone for each in states) else None  # told before they left
    barrier.close(f"{own}'s {why}")
    inform(barrier.news or f"{own}'s {why}", limit.left() / 2, last=[each.name for each in absent])
    return others_why or f"the {why}"


def inform(text: str, seconds: float, last: Collection[str] = ()) -> None:
    """Tell all other ranks of a failure, before this process leaves, so that none of them takes it for the cause.

    Who gives up passes on what it was told: the rank that told it may not have told all. A rank of ``last`` hears it
    when the others have, because it may leave at once: they would take that for the cause. The others take up to half
    of ``seconds``, and those of ``last`` what is left.
    """
    limit = TimeLimit(seconds)
    own = rpc.get_worker_info().name
    others = [name for name in here().names if name != own]
    early, late = [name for name in others if name not in last], [name for name in others if name in last]
    for names, share in ((early, 2 if late else 1), (late, 1)):
        call_all(names, lose, (text,), min(limit.left() / share, NEWS_SECONDS))


def _blame(error: RuntimeError) -> None:
    """Raises PeerLost if a call failed because a rank ended: the call's own error does not name the rank."""
    barrier, own = here(), rpc.get_worker_info().name
    first = barrier.names[0]
    if own != first:
        try:
            # A rank that tells of a loss leaves then, and may be gone before it is asked.
            lost = barrier.lost or rpc.rpc_sync(first, who_is_lost, timeout=2 * NEWS_SECONDS)
        except RuntimeError as failed:
            raise PeerLost(gone(first, failed)) from error
    else:
        lost = who_is_lost()
        # These calls come after the answers to waiting ranks, which must be sent before this process ends.
        inform(lost or f"{own} ended by {type(error).__name__}", NEWS_SECONDS)
    if lost is not None:
        raise PeerLost(lost) from error


@contextmanager
def losses_named() -> Iterator[None]:
    """Play a role in this block, once RPC is up: if a rank ends meanwhile, the first rank notices.

    Raises:
        PeerLost: a rank ended before it had finished, and this role failed because of that.
    """
    if here().names[0] == rpc.get_worker_info().name:
        here().watch()
    try:
        yield
    except RuntimeError as error:
        if type(error) is RuntimeError:  # an RPC failed; other errors name the lost peer themselves
            _blame(error)
        raise
