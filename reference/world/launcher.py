"""Launch a world: the only way processes start. One process a role, one rendezvous, one deadline, one log a role.

    with launch(roles(case), deadline=60) as world:
        outcomes = world.wait()        # {"ps": Returned(...), "trainer1": Returned(...), ...}

Roles come from one forkserver that has torch and its launcher's tutorials loaded. A function that is sent to a role is
named, not copied: it must stand at the top of a module that the role can import.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from reference.outcome import WorldError
from reference.world.grace import SECONDS
from reference.world.role import RoleConfig
from reference.world.role_handle import Progress, RoleHandle
from reference.world.rpc_agent import chosen_options
from reference.world.start import check, check_deadline, check_main, network, pickled, prepare_folder, start
from reference.world.world import Function, World, clean


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
    sent = _pickled_functions(roles)
    prologue = None if before is None else pickled("before", before)
    chosen = {name: chosen_options(roles, name, backend, options) for name in names}
    place, begun = prepare_folder(folder, names), time.monotonic()
    config = partial(RoleConfig, world_size=len(names), folder=place, launcher=os.getpid())
    config = partial(config, before=prologue, backend=backend, threads=threads, progress=on_progress is not None)
    handles: dict[str, RoleHandle] = {}
    try:
        paths = network().paths if isolated else ()
        for rank, name in enumerate(names):
            own = config(name=name, rank=rank, function=sent.get(name), options=chosen[name], network=paths)
            handles[name] = start(own)
            handles[name].due = begun + deadline
        how = {"keep": folder is not None, "idle": not sent, "isolated": bool(paths)}
        return World(handles, place, **how, on_progress=on_progress, grace=grace)
    except BaseException:
        for handle in handles.values():
            handle.kill()
            handle.end()
        clean(handles, place, folder is not None)
        raise


def _pickled_functions(roles: Mapping[str, Function] | Sequence[str]) -> dict[str, bytes]:
    """What each role plays, for another process; nothing for idle roles. Raises WorldError: it cannot be sent."""
    functions = dict(roles) if isinstance(roles, Mapping) else {}
    for name, function in functions.items():
        if not callable(function):
            raise WorldError(f"{name}: wanted a function, got {function!r}")
    return {name: pickled(name, function) for name, function in functions.items()}
