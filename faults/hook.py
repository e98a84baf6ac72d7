"""Install a plan in a process, the only way for faults to enter one: `install` before RPC starts, `remove` afterwards.

    launch(roles, before=partial(install, folder))

From then on `rpc.init_rpc` activates the plan of ``folder/plan.json`` for the role that it names. With an empty plan,
and no calls to record, nothing is replaced.
"""

from __future__ import annotations

import logging
import os
import platform
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext, suppress
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, SupportsFloat

import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from torch import __version__ as torch_version
from torch._C._distributed_rpc import _get_current_rpc_agent, _rref_context_get_debug_info
from torch.distributed.rpc import api

from faults.inject import messages
from faults.inject.announcer import Announcer, hear_steps
from faults.inject.call.callee_errors import raised_there
from faults.inject.call.calls import Calls, default_timeout
from faults.inject.call.delivery import CalleeState
from faults.inject.lives import in_this_life
from faults.inject.network import network
from faults.inject.patching import patch_all_references
from faults.inject.process import processes
from faults.ledger.error_links import TEXT, first_line, links_of, to_json
from faults.ledger.ledger import Ledger
from faults.ledger.record import COMMAND, is_traced, read_plan
from faults.ledger.snapshot import COUNTS, Snapshot, to_events
from faults.plan.places import Moment
from faults.plan.plan import Plan
from faults.tracing import RELEASE
from reference.system import moments

if TYPE_CHECKING:
    from faults.tracing.tracer import Tracer

# Steps above this number are not recorded, nor are more errors that a role logs.
RECORDED = 10_000
# Undo `install`, and `activate`.
_installed = ExitStack()
_active = ExitStack()
# Called with the folder and the ledger when a role's ledger has just been opened; `process_end` uses it in scripts.
on_activate: list[Callable[[Path, Ledger], None]] = []
# The processes whose uncaught error is recorded: this one, and those that it was forked from.
_told: set[int] = set()


def install(folder: str | os.PathLike[str], role: str = "", *, record: bool = False) -> None:
    """Make `rpc.init_rpc` activate the plan in ``folder``. ``record``: record calls even with an empty plan.

    `world.launch` passes ``role``, but the name that the process gives to `rpc.init_rpc` counts.

    Raises:
        PlanError: the plan cannot be read.
    """
    remove()
    plan = read_plan(folder)
    if not plan.faults and not record:
        return
    _installed.callback(
        patch_all_references("init_rpc", rpc.init_rpc, partial(_init_rpc, rpc.init_rpc, Path(folder), plan))
    )
    if is_traced(folder):
        from faults.tracing.tracer import Tracer  # here, because few runs are traced

        Tracer.start()
        _installed.callback(Tracer.stop)
    _installed.callback(_hear_uncaught(Path(folder)))
    # Already now, because a program may import it by name before RPC starts.
    _installed.callback(patch_all_references("shutdown", api.shutdown, partial(_shutdown, api.shutdown)))


def remove() -> None:
    """Undo `install` and `activate`, so that torch is as it was."""
    _active.close()
    _installed.close()


def present() -> bool:
    """Whether a plan is installed or active in this process."""
    return isinstance(api.shutdown, partial)


def _init_rpc(
    original: Callable[..., None],
    folder: Path,
    plan: Plan,
    name: str,
    backend: Any = None,
    rank: int = -1,
    world_size: int | None = None,
    rpc_backend_options: Any = None,
) -> None:
    """Replace `rpc.init_rpc`."""
    if plan.at("network"):
        network.enter(folder, name)
    announcer = activated(folder, name, plan, world=_meeting_place(rpc_backend_options))
    backend, options = messages.backend_for(plan, name, backend, rpc_backend_options, world_size)
    with messages.without_shared_memory() if plan.at("message") else nullcontext():
        original(name, backend, rank, world_size, options)
    announcer.announce("up")


def _meeting_place(options: Any) -> str:
    """Return where a world's processes meet, which distinguishes worlds with the same roles.

    Two spellings of one place count as two places.
    """
    place = str(getattr(options, "init_method", None) or "env://")
    if place.startswith("env:"):
        return f"{place} {os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
    return place


def activate(folder: str | os.PathLike[str], role: str) -> None:
    """Put the plan to work in this process now. A world whose RPC is up already can end it by `deactivate`.

    Raises:
        PlanError: the plan cannot be read, or this torch lacks a function that is replaced.
        LedgerError: the ledger cannot be written.
    """
    activated(folder, role)


def activated(
    folder: str | os.PathLike[str], role: str, plan: Plan | None = None, *, world: str | None = None
) -> Announcer:
    """`activate` a plan, by default that of the folder. Return what announces this process's moments.

    ``world``: the place where the process meets the others, if it is known.
    """
    _active.close()
    place = Path(folder)
    plan = in_this_life(read_plan(folder) if plan is None else plan, place, role)
    with ExitStack() as undo:
        ledger = Ledger(place, role, world=world)
        undo.callback(ledger.close)
        for action in on_activate:
            action(place, ledger)
        undo.enter_context(ledger.own_errors())
        announcer = Announcer(role, ledger.own_errors)
        announcer.subscribe(Moment("up", role), partial(_note_up, ledger))
        undo.callback(Calls(plan, role, ledger, announcer).install())
        for number, fault in plan.at("message").items():
            if fault.role in (None, role):
                ledger.write("planned", fault=number, kind=fault.kind, text=str(fault))
        for room in (processes, network):
            undo.callback(room.prepare(plan, role, place, ledger, announcer))
        _listen(announcer, ledger, undo)
        _active.push(undo.pop_all())
    return announcer


def _note_up(ledger: Ledger) -> None:
    """Record the default timeout of calls, from which the bound is computed; the roles of this world, which all need a
    ledger; and the versions."""
    agent: Any = _get_current_rpc_agent()
    names = sorted(info.name for info in agent.get_worker_infos())
    versions = {"torch": torch_version, "python": platform.python_version()}
    ledger.write("up", rpc_timeout=default_timeout(), workers=names, **versions)


def deactivate() -> None:
    """Undo `activate`."""
    _active.close()


def _hear_uncaught(folder: Path) -> Callable[[], None]:
    """Record the exception that ends this process, and those that end its threads. Return the undo."""
    original, of_thread = sys.excepthook, threading.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        with suppress(Exception):  # the folder was removed, or may not be written by the user that this process now has
            tell_uncaught(folder, error)
        original(kind, error, trace)

    def thread_excepthook(ended: threading.ExceptHookArgs) -> None:
        with suppress(Exception):
            _tell_of_thread(ended)
        of_thread(ended)

    def undo() -> None:
        if sys.excepthook is excepthook:
            sys.excepthook = original
        if threading.excepthook is thread_excepthook:
            threading.excepthook = of_thread

    sys.excepthook, threading.excepthook = excepthook, thread_excepthook
    return undo


def tell_uncaught(folder: Path, error: BaseException) -> None:
    """Record an exception that ends this process, once: in the ledger of the role that the process plays or has played,
    otherwise in the command's. A role of the process that this one was forked from does not count."""
    if os.getpid() in _told:
        return
    _told.add(os.getpid())
    own = CalleeState.of_this_process()
    if own is not None:
        own.settle()  # the call that failed by this error may not be recorded yet
    if not isinstance(error, (KeyboardInterrupt, SystemExit)):
        ledger = Ledger(folder, COMMAND) if own is None else own.ledger
        ledger.write("raised", error=first_line(error), links=to_json(links_of(error, raised_there)))
    elif own is not None and isinstance(error, KeyboardInterrupt):
        own.ledger.write("interrupted")


def _tell_of_thread(ended: threading.ExceptHookArgs) -> None:
    """Record an exception that ends only a thread, in the ledger of the role that this process plays."""
    error, own = ended.exc_value, CalleeState.of_this_process()
    if own is not None and error is not None and not isinstance(error, SystemExit):  # that ends a thread quietly
        name = "" if ended.thread is None else ended.thread.name
        own.ledger.write("thread", name=name, error=first_line(error), links=to_json(links_of(error, raised_there)))


def _listen(announcer: Announcer, ledger: Ledger, undo: ExitStack) -> None:
    """Announce the steps and the shutdown, and record the errors that the program logs."""
    undo.callback(hear_steps(partial(_step, announcer, ledger, "step"), partial(_logged, ledger, count(1))))
    moments.of_shutdown.append(partial(_leave, announcer, ledger))
    moments.of_checkpoint.append(partial(_step, announcer, ledger))
    undo.callback(moments.of_shutdown.clear)
    undo.callback(moments.of_checkpoint.clear)
    if not present():
        undo.callback(patch_all_references("shutdown", api.shutdown, partial(_shutdown, api.shutdown)))
    hooks: dict[str, Callable[..., None]] = {"_finalize_shutdown": _finalize}
    tracing: Any = sys.modules.get("faults.tracing.tracer")  # a process that does not trace need not import it
    tracer: Tracer | None = tracing and tracing.Tracer.current
    if tracer is not None:
        hooks[RELEASE] = partial(_take_snapshot, tracer)
        ledger.write("tracing")
    for name, act in hooks.items():
        original = getattr(api, name)
        undo.callback(setattr, api, name, original)
        setattr(api, name, partial(act, original, ledger))


def _step(announcer: Announcer, ledger: Ledger, what: str, number: int) -> None:
    """Record and announce a step, or that a checkpoint is saved; of a program with very many the first ones only.

    Those of a forked child are not the role's.
    """
    if ledger.process != os.getpid():
        return
    if number <= RECORDED:
        ledger.write(what, number=number)
    announcer.announce(what, number)


def _logged(ledger: Ledger, numbers: Iterator[int], record: logging.LogRecord) -> None:
    """Record what a role logs as an error, with the exception if there is one: the first `RECORDED` records."""
    if ledger.process == os.getpid() and next(numbers) <= RECORDED:
        error = record.exc_info[1] if record.exc_info else None
        links = {} if error is None else {"links": to_json(links_of(error, raised_there))}
        ledger.write("logged", text=record.getMessage()[:TEXT], **links)


def _leave(announcer: Announcer, ledger: Ledger, graceful: bool = True, timeout: float = 0.0) -> None:
    """Record and announce the shutdown. The arguments are those of `rpc.shutdown`."""
    with ledger.own_errors():
        seconds = float(timeout) if isinstance(timeout, SupportsFloat) else 0.0  # torch will refuse other values
        ledger.write("shutdown", graceful=bool(graceful), timeout=seconds)
        announcer.announce("shutdown")


def _shutdown(original: Callable[..., None], *args: Any, **kwargs: Any) -> None:
    """Replace `rpc.shutdown`."""
    moments.tell(moments.of_shutdown, *args, **kwargs)
    original(*args, **kwargs)


def _take_snapshot(tracer: Tracer, original: Callable[..., None], ledger: Ledger, *args: timedelta) -> None:
    """Record what this role holds when all roles have ended their work, and before torch frees it. ``args``: the limit
    of each wait of ``original``, from `reference.world.shutdown`."""
    try:
        tracer.snapshot_at_end(partial(_write_snapshot, ledger), *(each.total_seconds() for each in args))
    except Exception as error:  # the program has to shut down all the same
        ledger.write("untraced", error=first_line(error))
    original(*args)


def _write_snapshot(ledger: Ledger, snapshot: Snapshot) -> None:
    for event, fields in to_events(snapshot):
        ledger.write(event, **fields)


def counts_of_torch() -> dict[str, int]:
    """Return torch's counts of what this process keeps for others, by torch's own names (`COUNTS`)."""
    every = {**_rref_context_get_debug_info(), **dist_autograd._get_debug_info()}  # type: ignore[attr-defined]
    return {name: int(every[name]) for name in COUNTS}


def _finalize(original: Callable[[], None], ledger: Ledger) -> None:
    """Record the RRefs and autograd contexts that are left, when no calls can arrive and before torch frees them."""
    try:
        with ledger.own_errors():
            if CalleeState.open is not None:
                CalleeState.open.finish()
            ledger.write("left", **counts_of_torch())
            if CalleeState.open is not None:
                CalleeState.open.delayed_replies.close(give=False)
    finally:
        original()
