"""Find what a run has left: processes, shared memory, and who started them."""

from __future__ import annotations

import ctypes
import math
import os
import re
import signal
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from faults.inject.process.target import is_older
from faults.ledger.ledger import Event, Timeline, boot_id
from faults.ledger.moments_seen import starts_of
from reference.system.processes import pidfd_open, readable

PREFIX = "FAULTS_TESTS_"
_PROC = Path("/proc")
SHARED = Path("/dev/shm")


@contextmanager
def marked() -> Iterator[str]:
    """Set an environment variable in this process, and so in all processes that it starts in this block.

    A process that is started with another environment does not have it. The name is unique to this process, so that two
    runs at the same time find only their own processes; the processes of a run within a run have both marks.
    """
    mark = f"{PREFIX}{os.getpid()}_{time.time_ns()}"
    os.environ[mark] = "1"
    try:
        yield mark
    finally:
        os.environ.pop(mark, None)


def everybody() -> set[int]:
    """Return all process ids of the machine; elsewhere than on Linux none is found."""
    entries = os.listdir("/proc") if _PROC.is_dir() else ()  # noqa: PTH208 (twice a test)
    return {int(entry) for entry in entries if entry.isdigit()}


def relatives(pids: set[int], mark: str) -> set[int]:
    """Return those of ``pids`` that still run, and descend from this process or have its mark."""
    found = {pid for pid in pids if pid != os.getpid() and is_running(pid)}
    return {pid for pid in found if _descends(pid) or has_variable(pid, mark, "1")}


def is_running(pid: int) -> bool:
    """Whether a process exists and is no zombie, which only waits to be reaped."""
    return _stat(pid)[0] not in "ZX"


def ends_by(pid: int, due: float) -> bool:
    """Wait until a process ends, or until ``due`` (monotonic seconds). Return whether it has ended."""
    try:
        handle = pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(readable([handle], max(0.0, due - time.monotonic())))
    finally:
        os.close(handle)


def command(pid: int) -> str:
    """Return the first 80 characters of a process's command line."""
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        return " ".join(filter(None, words))[:80] or "a process"
    return "a process"


# How the resource trackers of Python's multiprocessing and of torch's are started.
_TRACKERS = re.compile(rb"from multiprocessing\.resource_tracker import main;main\(|^([^\0]*/)?torch_shm_manager\0")


def is_tracker(pid: int) -> bool:
    """Whether a process is a resource tracker: it waits for the end of others, and removes the shared memory that they
    have left."""
    with suppress(OSError):
        return bool(_TRACKERS.search(Path(f"/proc/{pid}/cmdline").read_bytes()))
    return False


def _stat(pid: int) -> tuple[str, int, int]:
    """Return a process's state, parent and session; ``X`` and 0 if it has ended."""
    try:
        state, parent, _, session = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[:4]
    except OSError:
        return "X", 0, 0
    return state, int(parent), int(session)


def _descends(pid: int) -> bool:
    while pid > 1:
        pid = _stat(pid)[1]
        if pid == os.getpid():
            return True
    return False


def has_variable(pid: int, name: str, value: str) -> bool:
    """Whether a process was started with this environment variable. False for one that this user may not inspect."""
    with suppress(OSError):
        return f"{name}={value}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return False


# From <linux/prctl.h>: orphaned descendants become children of this process, instead of the first process.
_PR_SET_CHILD_SUBREAPER = 36
_PR_GET_CHILD_SUBREAPER = 37

# Seconds that processes have to end by themselves; and if the plan killed a role, that the role's children have: the
# workers of a DataLoader check their parent every 5 s (torch's MP_STATUS_CHECK_INTERVAL).
GRACE, GRACE_OF_KILLED = 2.0, 6.5
# Seconds that a resource tracker has to end after all others. torch's goes on for two seconds.
_GRACE_OF_TRACKER = 6.0


@contextmanager
def adopting() -> Iterator[Callable[..., list[str]]]:
    """Yield a function that names the processes which were started in this block and are left.

    It first gives them some seconds to end (``grace``). Leaving the block kills those that are left. Resource trackers
    are neither named nor killed: leaving the block gives them some seconds to remove what the others have left.

    Linux only; elsewhere none is found. Processes that are started here have to lead a session of their own, as roles
    and scripts do: a child within this process's own session does not count.
    """
    before, was = _children(), ctypes.c_int()
    _prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(was))
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield partial(_left, before)
    finally:
        stays = set[int]()
        while orphans := _children() - before - stays:  # when one ends, this process adopts its children
            if others := {pid for pid in orphans if not is_tracker(pid)}:
                for pid in others:
                    _end(pid)
            else:
                due = time.monotonic() + _GRACE_OF_TRACKER
                stays |= {pid for pid in orphans if not ends_by(pid, due)}
        _prctl(_PR_SET_CHILD_SUBREAPER, was.value)


def kill_group(leader: int) -> None:
    """Kill all processes of a group, except resource trackers."""
    killed = set[int]()
    while found := {pid for pid in everybody() if _group(pid) == leader and not is_tracker(pid)} - killed:
        for pid in found:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        killed |= found


def _group(pid: int) -> int | None:
    with suppress(OSError):
        return os.getpgid(pid)
    return None


def _left(before: set[int], grace: float = GRACE) -> list[str]:
    due, seen, found = time.monotonic() + grace, before, list[str]()
    while orphans := sorted(pid for pid in _children() - seen if not is_tracker(pid)):
        seen = seen.union(orphans)  # when one ends, this process adopts its children
        found += [f"{command(pid)} still runs (process {pid})" for pid in orphans if not ends_by(pid, due)]
        if time.monotonic() > due + grace:  # processes that start others all the time
            break
    return found


def _children() -> set[int]:
    """Return this process's children in other sessions than its own."""
    found = {pid: _stat(pid) for pid in everybody()}
    return {pid for pid, (_, parent, session) in found.items() if parent == os.getpid() and session != os.getsid(0)}


def _end(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)


def _prctl(option: int, value: Any) -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


# How long before the start of RPC, when a role's ledger begins, its program may make shared memory (seconds). Processes
# get the ids of ended ones only after some thousands of others.
_EARLIER = 60.0


def leaks(timeline: Timeline) -> list[str]:
    """Name the roles of the run that still live, and the shared memory that they made.

    Shared memory that is much older than its role is of a process that had the same id, and has long ended.
    """
    found = [f"{event.role} still runs (process {pid})" for pid, event in living(timeline).items()]
    here = starts_of(timeline, boot_id())
    begun: dict[int | None, float] = {pid: event.details["wall"] - _EARLIER for pid, event in here.items()}
    memory = [name for name, status in shared_memory() if status.st_ctime > begun.get(maker(name), math.inf)]
    return found + [f"shared memory {name}" for name in memory]


def living(timeline: Timeline) -> dict[int, Event]:
    """Return the starts of the roles' processes that still run on this machine; a later process may have got the id of
    one that has ended."""
    here = starts_of(timeline, boot_id())
    first = next(iter(timeline.of("start")), None)
    # Events have the clock of the machine that began first.
    own = first is not None and first.details.get("boot") == boot_id()
    shift = timeline.zero if own else time.monotonic() - time.time()
    written = {pid: (event.time if own else event.details["wall"]) + shift for pid, event in here.items()}
    return {pid: event for pid, event in here.items() if is_older(pid, written[pid]) and is_running(pid)}


def maker(name: str) -> int | None:
    """Return the process that has made shared memory, if its name tells: the first number in it, as of torch's names
    (``torch_PID_RANDOM_COUNTER``) and OpenMP's. Numbers in multiprocessing's names of semaphores are random."""
    parts = [] if name.startswith("sem.") else re.split(r"[._]", name)
    return next((int(part) for part in parts if part.isdecimal()), None)


def shared_memory() -> Iterator[tuple[str, os.stat_result]]:
    """Yield name and state of this user's shared memory. Other users' may have names of the same form. A folder that
    somebody has put beside it is none."""
    for path in SHARED.iterdir() if SHARED.is_dir() else ():
        with suppress(OSError):  # it was removed meanwhile
            status = path.lstat()
            if status.st_uid == os.geteuid() and stat.S_ISREG(status.st_mode):
                yield path.name, status
