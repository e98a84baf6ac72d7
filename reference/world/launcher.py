"""Launch a world: one process and one log per role, one rendezvous, one deadline.

    with launch(roles(case), deadline=60) as world:
        outcomes = world.wait()        # {"ps": Returned(...), "trainer1": Returned(...), ...}

Roles are forked from one forkserver, which has imported torch and the tutorials that its launcher has loaded. A
function is sent to a role by its name: it must be defined at the top of a module that the role can import.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reference.outcome import WorldError
from reference.system.text import shown
from reference.trace.progress import Report
from reference.world.role import RoleConfig
from reference.world.role_handle import RoleHandle
from reference.world.rpc_agent import chosen_options
from reference.world.start import check, check_deadline, check_main, network, pickled, prepare_folder, start
from reference.world.supervisor import GRACE
from reference.world.world import Function, World, clean

if TYPE_CHECKING:  # a package of an extra comes with it
    from reference.trace.checkpoint import Checkpoints


def launch(
    roles: Mapping[str, Function] | Sequence[str],
    *,
    deadline: float = 60,
    before: Callable[[str], object] | None = None,
    options: Mapping[str, Any] | None = None,
    threads: int = 1,
    folder: str | os.PathLike[str] | None = None,
    on_progress: Report | None = None,
    grace: float = GRACE,
    isolated: bool = False,
    checkpoints: Checkpoints | None = None,
    restarts: int = 0,
) -> World:
    """Start one process per role. The roles of a mapping play their functions; mere names wait for `World.call`.

    All roles of this process have the environment variables of its first launch: one server forks them.

    Args:
        roles: name to function, called without arguments once RPC is up; ranks follow this order.
        deadline: seconds, for the whole world, from the moment at which its first process begins. A role whose
            function has not ended by then writes its stacks, is killed and is `Overdue`; the others are told of it, and
            raise `PeerLost`. This holds for idle roles, too, so the deadline limits how long they can be used.
        before: called with the role's name in each process before RPC starts.
        options: keyword arguments of ``rpc.TensorPipeRpcBackendOptions``, over the roles' own and
            `rpc_agent.LOCAL_OPTIONS`.
        threads: the argument for ``torch.set_num_threads`` in each role.
        folder: where the rendezvous and the logs are written and stay; by default a temporary folder that is removed
            at the end.
        on_progress: called in a thread of this process for each step that a role's `Recorder` logs, with (role,
            {"step", "steps", "loss", "time"}); the time is `time.monotonic`'s. It cannot call, wait for, close or
            expire its world: that ends it.
        grace: seconds after which a role is given up before the deadline: it is stuck in the start of RPC, or it is
            stopped by a signal, another role has ended and the rest can only wait. It writes its stacks, is killed and
            is `Overdue`, with the reason. This must be longer than a start takes; a start in which roles still answer
            has six times as long. It is multiplied by the number of roles / 50 if there are more than 50.
        isolated: the roles run in a network that only the isolated worlds of this process share: nothing outside can
            connect to them, and they can connect to nothing outside. If the kernel does not allow such a network,
            ``World.isolated`` is False and the world is like any other (docs/security.md).
        checkpoints: where the roles save their state, and from where they go on (`reference.trace.checkpoint`).
        restarts: how often `World.wait` starts a world again that has lost a role. With the first role that is lost the
            whole world is ended, and a new life goes on from the last checkpoint, at the latest until the deadline. A
            role that fails twice by one error, from one checkpoint, is not started again.

    Raises:
        WorldError: an argument cannot be used; then no process was started. Or the processes cannot be started.
        Unusable: the folder of ``checkpoints`` cannot be used, or has some that cannot be used or were not asked for.
    """
    check_main()
    names = list(roles) if isinstance(roles, Mapping) else roles
    check(names, deadline, threads, options)
    if isinstance(restarts, bool) or not isinstance(restarts, int) or restarts < 0:
        raise WorldError(f"restarts are a number, at least 0, got {restarts!r}")
    if restarts and not isinstance(roles, Mapping):
        raise WorldError("a world whose roles wait for calls cannot be started again, wanted restarts=0")
    if checkpoints is not None and {*checkpoints.roles} != {*names}:
        raise WorldError(f"checkpoints of {', '.join(checkpoints.roles)}, wanted those of {', '.join(names)}")
    check_deadline(grace, "a grace")
    if not isinstance(isolated, bool):
        raise WorldError(f"isolated must be True or False, got {isolated!r}")
    for what, function in (("before", before), ("on_progress", on_progress)):
        if function is not None and not callable(function):
            raise WorldError(f"{what}: wanted a function, got {shown(function)}")
    sent = _pickled_functions(roles)
    prologue = () if before is None else (pickled("before", before),)
    chosen = {name: chosen_options(roles, name, options) for name in names}
    pickled("options", chosen)
    place = prepare_folder(folder, names)
    shared: dict[str, Any] = {
        "world_size": len(names),
        "folder": place,
        "launcher": os.getpid(),
        "threads": threads,
        "progress": on_progress is not None,
        "maps": any("device_maps" in each or "devices" in each for each in chosen.values()),
    }
    handles: dict[str, RoleHandle] = {}
    due = 0.0

    def begin() -> int:
        """Start the processes of a life; return the step from which it goes on."""
        nonlocal due, checkpoints
        first: tuple[bytes, ...] = ()
        if checkpoints is not None:
            checkpoints = checkpoints.chosen()
            first = (pickled("checkpoints", checkpoints),)
        for rank, name in enumerate(names):
            own: dict[str, Any] = {"name": name, "rank": rank, "function": sent.get(name), "options": chosen[name]}
            handles[name] = start(RoleConfig(**own, **shared, before=first + prologue))
            due = due or time.monotonic() + deadline  # not before: the process server may have had to start
            handles[name].due = due
        return 0 if checkpoints is None else checkpoints.start

    try:
        paths = network().paths if isolated else ()
        shared["network"] = paths
        how = {"keep": folder is not None, "idle": not sent, "isolated": bool(paths)}
        return World(handles, place, begin, restarts, **how, on_progress=on_progress, grace=grace)
    except BaseException:
        clean(handles, place, folder is not None, os.getpid())
        raise


def _pickled_functions(roles: Mapping[str, Function] | Sequence[str]) -> dict[str, bytes]:
    """Pickle each role's function; idle roles have none. Raises WorldError: a function cannot be sent."""
    functions = dict(roles) if isinstance(roles, Mapping) else {}
    for name, function in functions.items():
        if not callable(function):
            raise WorldError(f"{name}: wanted a function, got {shown(function)}")
    return {name: pickled(name, function) for name, function in functions.items()}
