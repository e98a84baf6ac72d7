"""Shut RPC down within a limit, in any program that has called ``init_rpc``: `shutdown`."""

from __future__ import annotations

import sys
import threading

from torch._C._distributed_rpc import _get_current_rpc_agent, _is_current_rpc_agent_set
from torch.distributed.rpc import api

from reference.outcome import PeerLost, WorldError
from reference.system import shutdown_listeners
from reference.system.interrupts import TimeLimit
from reference.system.processes import WorkThread
from reference.world import shutdown_barrier
from reference.world.common_shutdown import shut_down_together
from reference.world.start import check_deadline

# The last seconds of a limit, at most this share of it, are for questions to missing peers and for this process's end.
RESERVE_SECONDS, RESERVE_SHARE = 2.0, 0.25

_one_at_a_time = threading.Lock()
# The end of RPC in this process that an earlier shutdown could not wait for.
_unfinished: list[WorkThread] = []


def shutdown(timeout: float = 60.0, *, graceful: bool = True) -> None:
    """Shut RPC down as ``rpc.shutdown()`` does, and return or raise within ``timeout`` seconds.

    Every process of the world has to call it, in any order and from any thread. Calls that are under way are finished,
    and RRefs deleted, as torch does. If a process is gone, all others raise as soon as they hear of it; if one does not
    come, those that wait raise shortly before their limit. Afterwards RPC has ended in this process, with or without
    an error, and ``init_rpc`` can start it again, unless the error says that it cannot.

    Args:
        timeout: seconds, at most 1e+06. The last 2 of them, at most a quarter, are kept for the end itself.
        graceful: False ends RPC in this process only, and waits for nobody.

    Raises:
        PeerLost: the common shutdown has failed: the text says which process is gone, does not answer, waits for the
            answer of a call, or has not called this function, and where it is instead.
        WorldError: RPC is not up, another thread shuts it down, ``timeout`` cannot be waited for, or the world has no
            fixed number of processes; or RPC has not ended in this process.
    """
    check_deadline(timeout, "a timeout")
    limit = TimeLimit(timeout, min(RESERVE_SECONDS, RESERVE_SHARE * timeout))
    if not _one_at_a_time.acquire(blocking=False):
        raise WorldError("another thread of this process is shutting RPC down already")
    try:
        _shutdown(limit, graceful)
    finally:
        _one_at_a_time.release()


def _shutdown(limit: TimeLimit, graceful: bool) -> None:
    failure: BaseException | None = None
    if not _unfinished:
        _check(graceful)
        shutdown_listeners.announce(graceful, limit.seconds)
        try:
            if graceful:
                shut_down_together(limit)
        except BaseException as error:
            failure = error
    unended = _end_here(limit)
    if unended and isinstance(failure, Exception | None):
        kind = PeerLost if isinstance(failure, PeerLost) else WorldError
        raise kind(f"{failure}; and {unended}" if failure else unended) from failure
    if failure is not None:
        raise failure


def _check(graceful: bool) -> None:
    """Raises WorldError: there is nothing that could be shut down like that."""
    if not _is_current_rpc_agent_set():
        raise WorldError("RPC is not up: wanted a call of init_rpc before, and one shutdown after it")
    if graceful and not getattr(_get_current_rpc_agent(), "is_static_group", True):
        raise WorldError("init_rpc was called without world_size: wanted a world of a fixed number of processes")


def _end_here(limit: TimeLimit) -> str:
    """End RPC in this process. Return why it has not ended: a function that RPC executes does not end."""
    if not _unfinished:
        _unfinished[:] = [WorkThread(_finalize)]
    try:
        if _unfinished[0].ends_within(limit.left()):
            return ""
    finally:
        if not _unfinished[0].is_alive():
            _unfinished.clear()
    what = f"RPC has not ended in this process after {limit.seconds:g} s, because it still executes {_executing()}"
    return f"{what}; until that has ended, init_rpc cannot start RPC again in this process"


def _finalize() -> None:
    """End RPC here, and forget the numbers of common waits: after a failure they differ between processes."""
    names = "".join(sorted(api._ALL_WORKER_NAMES))
    try:
        api._finalize_shutdown()
    finally:
        shutdown_barrier.forget()
        with api._all_gather_dict_lock:
            for number in range(api._all_gather_sequence_id.pop(names, 0)):
                api._all_gather_sequence_id_to_states.pop(f"{names}{number}", None)


def _executing() -> str:
    """Name the functions that other processes have called and that have not returned."""
    places = []
    for frame in sys._current_frames().values():
        outer = frame
        while outer.f_back is not None:
            outer = outer.f_back
        if outer.f_code.co_name == "_run_function" and outer.f_code.co_filename.endswith("rpc/internal.py"):
            called = getattr(outer.f_locals.get("python_udf"), "func", None)
            places.append(shutdown_barrier.place_in_program(frame) or _name_of(called))
    return ", ".join(sorted(places)) or "a function of C++"


def _name_of(function: object) -> str:
    """Name a function of a library, such as ``time.sleep``, which has no place in the program."""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    module = getattr(function, "__module__", None)
    return f"{module}.{name}" if module else name
