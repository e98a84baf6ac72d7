"""Shut RPC down within a limit, although a process died: `shutdown`, in any program that has called ``init_rpc``.

``rpc.shutdown()`` by itself waits for a dead process forever. Here all processes reach each stage of the shutdown
together: each calls the first rank, which answers when all have called. And the first rank has a call open to every
other rank, and they have one open to the first, which fails when that process ends. All of it goes over RPC itself, so
nothing has to be prepared, and it holds on several machines. Only torch's own last count of open calls goes through the
store by which the processes met.
"""

from __future__ import annotations

import re
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import torch.distributed.rpc as rpc
from torch._C._distributed_rpc import _get_current_rpc_agent, _is_current_rpc_agent_set
from torch.distributed.rpc import api

from reference.outcome import PeerLost, WorldError
from reference.system import moments
from reference.system.processes import wait_until
from reference.world.start import check_deadline

# What all processes reach together: all have called `shutdown`; no program has an open call; all know that.
CALLED, IDLE, READY = STAGES = ("called", "idle", "ready")
# The key in the store by which processes say that they need the store no more.
LEFT = "reference_left"
# The last seconds of a limit, at most this share of it, are for questions to missing peers and for this process's end.
RESERVE_SECONDS, RESERVE_SHARE = 2.0, 0.25
# Seconds in which the first rank hears of a death that another rank has noticed; and in which others are told of it.
NEWS_SECONDS = 1.0
# Seconds between two looks at the number of open calls, or at the store.
PAUSE = 0.005
# Seconds that a process stays in torch's count for one that does not come there: torch's own default.
COUNT_SECONDS = 60.0
# Seconds after which a wait for torch's count asks who is dead, for the first time; then after twice as many.
FIRST_LOOK = 0.5
# Seconds in which that count ends here if the process that is gone has only left before this one, as it may.
GRACE = 2.0


# The least number of seconds that a wait is given: RPC takes 0 for no limit.
SHORTEST = 0.001


class TimeLimit:
    """Begins when it is made. ``reserve``: the last seconds, which waits for other processes leave alone."""

    def __init__(self, seconds: float, reserve: float = 0.0) -> None:
        self.seconds = seconds
        self.reserve = reserve
        self._due = time.monotonic() + seconds

    def left(self) -> float:
        """The seconds until the end, at least `SHORTEST`."""
        return max(self._due - time.monotonic(), SHORTEST)

    def left_to_wait(self) -> float:
        """The seconds until the reserve begins, at least `SHORTEST`."""
        return max(self._due - self.reserve - time.monotonic(), SHORTEST)

    def over(self) -> bool:
        """Whether the reserve has begun."""
        return self.left_to_wait() == SHORTEST


class WorkThread(threading.Thread):
    """Begins when it is made. ``error``: what the work raised. ``daemon``: Python's end does not wait for it."""

    def __init__(self, work: Callable[[], object], *, daemon: bool = True) -> None:
        super().__init__(daemon=daemon)
        self.work = work
        self.error: Exception | None = None
        # `join`, if it is interrupted, and then `is_alive` say that it has ended (until Python 3.13).
        self.ended = threading.Event()
        self.start()

    def run(self) -> None:
        try:
            self.work()
        except Exception as error:
            self.error = error
        finally:
            del self.work  # who keeps the thread keeps nothing of the work alive
            self.ended.set()

    def ends_within(self, seconds: float) -> bool:
        """Wait for the end of the work. Raises its error."""
        ended = wait_until(self.ended.wait, seconds)
        if self.error is not None:
            raise self.error
        return ended


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
    if _unfinished and _unfinished[0].ended.is_set() and _is_current_rpc_agent_set():
        _unfinished.clear()  # that end has come, and RPC was started again
    if not _unfinished:
        if not _is_current_rpc_agent_set():
            raise WorldError("RPC is not up: wanted a call of init_rpc before, and one shutdown after it")
        if graceful and not getattr(_get_current_rpc_agent(), "is_static_group", True):
            raise WorldError("init_rpc was called without world_size: wanted a world of a fixed number of processes")
        try:
            moments.tell(moments.of_shutdown, graceful, limit.seconds)
            if graceful:
                end_together(limit)
        except BaseException as error:
            failure = error
    unended = _end_here(limit)
    if unended and isinstance(failure, Exception | None):
        kind = PeerLost if isinstance(failure, PeerLost) else WorldError
        raise kind(f"{failure}; and {unended}" if failure else unended) from failure
    if failure is not None:
        raise failure


@contextmanager
def losses_named() -> Iterator[None]:
    """Play a role in this block, once RPC is up: if a rank ends meanwhile, the first rank notices.

    Raises:
        PeerLost: a rank ended before it had shut down, and this role failed because of that. The error of the call that
            failed does not name the rank.
    """
    barrier, own = here(), rpc.get_worker_info().name
    first = barrier.names[0]
    if own == first:
        barrier.watch()
    try:
        yield
    except RuntimeError as error:
        # Then no RPC failed: other errors name the dead peer themselves, or the role has ended RPC itself before.
        if type(error) is not RuntimeError or not _is_current_rpc_agent_set() or here() is not barrier:
            raise
        seconds = 2 * NEWS_SECONDS
        try:
            # A rank that tells of a death leaves then, and may be gone before it is asked.
            reason = barrier.reason or rpc.rpc_sync(first, reason_of_failure, timeout=seconds)
        except RuntimeError as failed:
            reason = barrier.reason or _trouble(first, failed, seconds)  # it may have told this rank, and left
        if own == first:
            # These calls come after the answers to waiting ranks, which must be sent before this process ends.
            _inform(reason or f"{own} ended by {type(error).__name__}", NEWS_SECONDS)
        if reason is None:
            raise
        raise PeerLost(reason) from error


# What the processes call on each other.

Answer = torch.futures.Future[str | None]  # None, or why the shutdown fails
# The stage that a process has reached, the open calls of its program, the place of its main thread, and why the
# shutdown fails, if it has heard that.
State = tuple[str, int, str, str | None]


class ShutdownBarrier:
    """One process's part in the end of its world. The first rank's knows who is where, and why the shutdown fails."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        self.lock = threading.Lock()
        self.missing = {stage: set(names) for stage in STAGES}
        self.answers: dict[str, Answer] = {stage: torch.futures.Future() for stage in STAGES}
        # Why the shutdown fails, as this process was told or has noticed first; and that the answers are given.
        self.reason: str | None = None
        self.known = threading.Event()
        # Completes when this process need not be watched any longer.
        self.released: torch.futures.Future[None] = torch.futures.Future()
        # This process's calls that watch others.
        self.watching = False
        self.watches: list[torch.futures.Future[None]] = []
        # The last stage that this process has reached, and the calls of its program that it waits for.
        self.stage = ""
        self.open_calls = 0

    def watch(self) -> None:
        """Notice when another process ends; not when it is stopped, or its connection is cut.

        The first rank watches all others, and they watch the first.
        """
        with self.lock:
            begun, self.watching = self.watching, True
        others = self.names[1:] if rpc.get_worker_info().name == self.names[0] else self.names[:1]
        for name in [] if begun else others:
            call = rpc.rpc_async(name, until_released, timeout=0)
            self.watches.append(call)
            call.add_done_callback(partial(self._heard, name))

    def _heard(self, name: str, call: torch.futures.Future[None]) -> None:
        try:
            call.value()
        except Exception as error:
            self.fail(_gone(name, error))

    def reach(self, stage: str, name: str) -> Answer:
        """Note where ``name`` is. The returned future completes when all are there, or when one is dead."""
        with self.lock:
            self.missing[stage].discard(name)
            last = not self.missing[stage] and self.reason is None
        if last:
            self.answers[stage].set_result(None)
        return self.answers[stage]

    def fail(self, text: str) -> None:
        """End the wait of all ranks for the stages that not all have reached, unless the shutdown has failed before."""
        with self.lock:
            if self.reason is not None:
                return
            self.reason = text
            unreached = [stage for stage in STAGES if self.missing[stage]]
        for stage in unreached:
            self.answers[stage].set_result(text)
        self.known.set()  # after the answers, which must be sent before RPC ends

    def look(self) -> int:
        """Count the open calls of this process's program: all but those that watch others."""
        own = sum(not call.done() for call in self.watches)
        self.open_calls = max(0, int(_get_current_rpc_agent().get_debug_info()["agent.client_active_calls"]) - own)
        return self.open_calls


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


@rpc.functions.async_execution  # type: ignore[untyped-decorator]
def until_released() -> torch.futures.Future[None]:
    """Runs on a rank that is watched, until it is released. It occupies no thread."""
    return here().released


@rpc.functions.async_execution  # type: ignore[untyped-decorator]
def reach(stage: str, name: str) -> Answer:
    """Runs on the first rank: `ShutdownBarrier.reach`. With the first rank that has come all are watched."""
    here().watch()
    return here().reach(stage, name)


def fail(text: str) -> None:
    """Runs on a rank that has to hear that the common shutdown has failed, and why."""
    here().fail(text)


def reason_of_failure() -> str | None:
    """Runs on the first rank, which hears of a death at about the time when calls of other ranks fail because of it."""
    here().known.wait(NEWS_SECONDS)
    return here().reason


def state() -> State:
    """Runs on a rank that is asked where it is."""
    main = sys._current_frames().get(threading.main_thread().ident or 0)
    return here().stage, here().open_calls, _place(main) or "outside of the program", here().reason


# The stages.


def end_together(limit: TimeLimit) -> None:
    """Reach all stages with all others, until no process needs another one any more.

    Raises:
        PeerLost: a process is gone, or does not answer, or does not come to the shutdown, or calls are still open at
            the end of the limit; or another process has given up.
    """
    try:
        here().watch()
        meet(CALLED, limit)
        release_rrefs(limit)
        _await_open_calls(limit)
        meet(IDLE, limit)
        meet(READY, limit)
        here().released.set_result(None)
        count_together(limit)
    except (PeerLost, TimeoutError) as error:
        raise PeerLost(_give_up(error, limit)) from (error.__cause__ if isinstance(error, PeerLost) else error)


def meet(stage: str, limit: TimeLimit) -> None:
    """Wait until all ranks have come to this stage. Raises PeerLost or TimeoutError."""
    barrier, own = here(), rpc.get_worker_info().name
    first = barrier.names[0]
    barrier.stage = stage
    try:
        reason = barrier.reason or rpc.rpc_sync(first, reach, args=(stage, own), timeout=limit.left_to_wait())
    except RuntimeError as error:
        if _is_timeout(error):
            raise TimeoutError from error
        raise PeerLost(_gone(first, error)) from error
    if reason is not None:
        raise PeerLost(reason)


def release_rrefs(limit: TimeLimit) -> None:
    """Wait until RRefs of this process are confirmed, and then until those of others are deleted."""
    # By its name in `api`, as torch does, so that a trace sees it.
    timeout = timedelta(seconds=limit.left_to_wait() / 3)
    api._delete_all_user_and_unforked_owner_rrefs(timeout)  # type: ignore[attr-defined]


def _await_open_calls(limit: TimeLimit) -> None:
    """Wait until this process's program has no open call. Raises PeerLost or TimeoutError."""
    barrier = here()
    while barrier.look():
        if barrier.known.wait(PAUSE):
            raise PeerLost(barrier.reason)
        if limit.over():
            raise TimeoutError


def count_together(limit: TimeLimit) -> None:
    """Let torch count the open calls of all processes, which misses none; a look at each could.

    The count cannot be ended from outside, so it begins only when all know that no program had an open call.

    Raises:
        PeerLost: a process has died meanwhile.
        TimeoutError: the count has failed, or has not ended within the limit.
    """
    agent: Any = _get_current_rpc_agent()
    agent.store.set_timeout(timedelta(seconds=min(limit.left_to_wait(), COUNT_SECONDS)))
    # No daemon: Python waits for it at its end, because a thread that came back from C++ then would abort the process.
    count, pause = WorkThread(partial(_count, agent, here(), limit), daemon=False), FIRST_LOOK
    try:
        while not count.ends_within(min(pause, limit.left_to_wait())):
            if limit.over():
                raise TimeoutError
            dead = _dead(min(NEWS_SECONDS, limit.left_to_wait()))
            if here().reason or (dead and not count.ends_within(min(GRACE, limit.left_to_wait()))):
                raise PeerLost(here().reason or dead)
            pause *= 2
    except BaseException as error:
        with suppress(RuntimeError):
            agent.store.set_timeout(timedelta(seconds=SHORTEST))  # a wait for a file's store ends by that
        count.ended.wait(min(NEWS_SECONDS, limit.left() / 4))
        if isinstance(error, RuntimeError) and not isinstance(error, PeerLost):
            raise TimeoutError(_first_line(error)) from error
        raise


def _count(agent: Any, barrier: ShutdownBarrier, limit: TimeLimit) -> None:
    agent.join(shutdown=True, timeout=limit.left_to_wait())
    with suppress(RuntimeError):  # all have been counted: nothing can fail any more
        agent.store.add(LEFT, 1)
        # The first rank, whose process may hold the store, stays until nobody needs the store any more.
        while agent.get_worker_info().name == barrier.names[0] and agent.store.add(LEFT, 0) < len(barrier.names):
            if limit.over() or barrier.known.wait(PAUSE):
                break


def _dead(seconds: float) -> str:
    """Name the processes that are gone. Only the first rank asks all; the others would name those that it told."""
    names = here().names
    answers = call_all(names if rpc.get_worker_info().name == names[0] else names[:1], state, (), seconds)
    errors = {name: each for name, each in answers.items() if isinstance(each, RuntimeError) and not _is_timeout(each)}
    return "; ".join(_gone(name, error) for name, error in errors.items())


# The failure of a shutdown.


def _give_up(error: PeerLost | TimeoutError, limit: TimeLimit) -> str:
    """Say why the shutdown fails, and tell the others before this process leaves: they would take it for the cause.

    Who was told a cause passes it on: the rank that told it may not have told all.
    """
    barrier, own = here(), rpc.get_worker_info().name
    text = barrier.reason or (_missing(error, limit) if isinstance(error, TimeoutError) else str(error))
    # No future may be completed later: torch crashes if one is completed after RPC has ended.
    barrier.fail(text)
    barrier.known.wait(NEWS_SECONDS)
    text = barrier.reason or text
    if isinstance(error, TimeoutError) or own == barrier.names[0]:
        _inform(text, limit.left() / 2)
    return text


def _missing(error: TimeoutError, limit: TimeLimit) -> str:
    """Ask all where they are, and say for whom this process has waited."""
    own, seconds = rpc.get_worker_info().name, min(limit.left() / 2, NEWS_SECONDS)
    answers = {own: state(), **call_all(here().names, state, (), seconds)}
    # Who is gone may have left because another rank has given it up: the news of that is on its way to this one, too.
    if any(isinstance(each, RuntimeError) and not _is_timeout(each) for each in answers.values()):
        here().known.wait(min(limit.left() / 2, NEWS_SECONDS))
    troubles = "; ".join(filter(None, (_trouble(name, answer, seconds) for name, answer in answers.items())))
    if not troubles and (told := [each[-1] for each in answers.values() if each[-1]]):
        return str(told[0])  # who was missing has come, because another rank has given it up
    why = f"timed out after {limit.seconds:g} s" if limit.over() else "failed"
    return f"{own}'s shutdown {why}: {troubles or str(error) or 'the last process has come too late'}"


def _trouble(name: str, answer: State | RuntimeError, seconds: float) -> str:
    """Say why others wait for ``name``, by what it answers or by the error of that call; empty if they do not."""
    if isinstance(answer, RuntimeError):
        return f"{name} does not answer within {seconds:.1f} s" if _is_timeout(answer) else _gone(name, answer)
    stage, open_calls, place, _ = answer
    if not stage:
        return f"{name} has not called it (its main thread is {place})"
    s = "s" * (open_calls > 1)
    return f"{name} waits for the answer{s} of {open_calls} call{s}" if open_calls else ""


def _is_timeout(error: BaseException) -> bool:
    return isinstance(error, TimeoutError) or str(error).startswith("RPCErr:1:")


# How a call fails that its callee could not even read, because a module is not there.
_UNREADABLE = re.compile(r"Error on Node \d+: ")


def _gone(name: str, error: Exception) -> str:
    """Say in one line that a call to ``name`` has failed for good."""
    text = _first_line(error)
    if unreadable := _UNREADABLE.match(text):
        return f"{name} cannot take part in the shutdown: {text[unreadable.end() :]}"
    return f"{name} is gone: {text}"


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _inform(text: str, seconds: float) -> None:
    """Tell all other ranks why the shutdown fails.

    The first rank hears it before the others, which may leave at once: it watches them, and would take that for the
    cause.
    """
    first, *others = here().names
    for names in ([first], others):
        call_all(names, fail, (text,), min(seconds / 2, NEWS_SECONDS))


def call_all(
    names: Iterable[str], function: Callable[..., Any], args: tuple[object, ...], seconds: float
) -> dict[str, Any]:
    """Call ``function`` on all of these but this rank: what each returned, or the RuntimeError of its call."""
    own, timeout = rpc.get_worker_info().name, max(seconds, SHORTEST)  # a part of the shortest wait would have no limit
    calls = {name: rpc.rpc_async(name, function, args=args, timeout=timeout) for name in names if name != own}
    return {name: _result(call) for name, call in calls.items()}


def _result(call: Any) -> Any:
    try:
        return call.wait()
    except RuntimeError as error:
        return error


# Files that belong to no program. Packages may be installed below the standard library.
_LIBRARIES = (str(Path(torch.__file__).parent), str(Path(__file__).parent), "<frozen ")
_STDLIB = sysconfig.get_path("stdlib")


def _place(frame: FrameType | None) -> str:
    """Name the innermost function outside of libraries: ``in step at train.py:41``; empty if there is none."""
    while frame is not None and _of_a_library(frame.f_code.co_filename):
        frame = frame.f_back
    return f"in {frame.f_code.co_name} at {Path(frame.f_code.co_filename).name}:{frame.f_lineno}" if frame else ""


def _of_a_library(file: str) -> bool:
    return file.startswith(_LIBRARIES) or (file.startswith(_STDLIB) and "site-packages" not in file)


# The end of RPC in this process.


def _end_here(limit: TimeLimit) -> str:
    """End RPC in this process. Return why it has not ended: a function that RPC executes does not end."""
    if not _unfinished:
        _unfinished[:] = [WorkThread(_finalize)]
    try:
        if _unfinished[0].ends_within(limit.left()):
            return ""
    finally:
        if _unfinished[0].ended.is_set():
            _unfinished.clear()
    what = f"RPC has not ended in this process after {limit.seconds:g} s, because {_executing()}"
    return f"{what}; until that has ended, init_rpc cannot start RPC again in this process"


def _finalize() -> None:
    try:
        api._finalize_shutdown()
    finally:
        _present.clear()  # let the world's store go


def _executing() -> str:
    """Say which functions that other processes have called have not returned."""
    places = []
    for frame in sys._current_frames().values():
        outer = frame
        while outer.f_back is not None:
            outer = outer.f_back
        if outer.f_code.co_name == "_run_function" and outer.f_code.co_filename.endswith("rpc/internal.py"):
            called = getattr(outer.f_locals.get("python_udf"), "func", None)
            places.append(_place(frame) or _name_of(called))
    return f"it still executes {', '.join(sorted(places))}" if places else "torch's threads have not ended"


def _name_of(function: object) -> str:
    """Name a function of a library, such as ``time.sleep``, which has no place in the program."""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    module = getattr(function, "__module__", None)
    return f"{module}.{name}" if module else name
