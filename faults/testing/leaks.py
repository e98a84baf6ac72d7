"""Compare what exists in and around a process before and after a test.

RRefs and autograd contexts exist in the roles: `faults.testing.idle_world` asks for them.
"""

from __future__ import annotations

import gc
import multiprocessing.util
import os
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from faults.run.leftovers import command, ends_by, everybody, relatives
from reference.system import isolated_network
from reference.system.temporary_folders import MARK

# How long processes and threads may take to end after a test (seconds).
GRACE = 10.0
# How long another thread may have a file open that it closes by itself, and the time between two looks (seconds).
CLOSING, _LOOK_SECONDS = 0.5, 0.01
SHARED = Path("/dev/shm")

# Something that exists, and its name in a report.
Seen = Mapping[Any, str]


class Accounting:
    """The things that exist before a test; `left` names those that are new after it. ``mark``: see
    `faults.run.leftovers`."""

    def __init__(self, kinds: Collection[str], mark: str) -> None:
        self._mark = mark
        self._kinds = [kind for kind in ("processes", *LOOKS) if kind in kinds]
        self._pids = everybody()
        self._before = {kind: LOOKS[kind]() for kind in LOOKS}

    def left(self, besides: Collection[str] = ()) -> list[str]:
        """Return one line for each thing that this test left, except the kinds ``besides``. Waits at most `GRACE` and
        `CLOSING`."""
        kinds = [kind for kind in self._kinds if kind not in besides]
        if not self._look(kinds):
            return []
        gc.collect()  # what only garbage refers to does not count
        due = time.monotonic() + GRACE
        for pid in self._processes() if "processes" in kinds else ():
            ends_by(pid, due)
        for thread in self._new("threads") if "threads" in kinds else ():
            thread.join(max(0.0, due - time.monotonic()))
        if "descriptors" in kinds:
            self._await_closing()
        return self._look(kinds)

    def _await_closing(self) -> None:
        """Let threads that have a file open for a moment, such as those of worlds, go on and close it."""
        due = time.monotonic() + CLOSING
        while self._new("descriptors") and time.monotonic() < due:
            time.sleep(_LOOK_SECONDS)

    def _look(self, kinds: list[str]) -> list[str]:
        found = []
        for kind in kinds:
            if kind == "processes":
                found += [f"process {pid}: {command(pid)}" for pid in sorted(self._processes())]
            else:
                found += sorted(self._new(kind).values())
        return found

    def _processes(self) -> set[int]:
        return relatives(everybody() - self._pids, self._mark) - _servants()

    def _new(self, kind: str) -> dict[Any, str]:
        new = {key: name for key, name in LOOKS[kind]().items() if key not in self._before[kind]}
        return {key: name for key, name in new.items() if kind != "memory" or self._ours(key)}

    def _ours(self, key: tuple[str, int]) -> bool:
        """Whether shared memory belongs to this run: no process of another run has it open, or has its id in the
        name."""
        name, inode = key
        ours = relatives(everybody(), self._mark) | {os.getpid()}
        strangers = everybody() - ours
        if strangers & {int(part) for part in name.replace(".", "_").split("_") if part.isdecimal()}:
            return False
        return not any(_has_open(pid, inode) for pid in strangers)


def _threads() -> Seen:
    """Return Python's own threads. Threads of C++ do not count: one that has called Python stays listed after its
    end."""
    listed = threading.enumerate()
    return {each: f"thread {each.name}" for each in listed if not isinstance(each, threading._DummyThread)}


# The folders of Python and of installed packages: a library may keep some of its own files open for good.
_INSTALLED = tuple(sorted({f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "purelib", "platlib")}))


def _descriptors() -> Seen:
    """Return the open files of this process, except those of Python's own helper processes, of isolated worlds (which
    are kept for the next world), and of installed libraries."""
    servants = {_servant("forkserver", "_forkserver_alive_fd"), _servant("resource_tracker", "_fd")}
    ours = servants | isolated_network.descriptors()
    lock = f"{multiprocessing.util.get_temp_dir()}{os.sep}{MARK}"  # in the folder of the forkserver's socket
    found = {}
    for number in os.listdir("/proc/self/fd"):  # noqa: PTH208 (twice a test)
        with suppress(OSError):  # the descriptor of the listing itself is closed by now
            target = os.readlink(f"/proc/self/fd/{number}")  # noqa: PTH115 (twice a test)
            if int(number) not in ours and target != lock and not target.startswith(_INSTALLED):
                found[number, target] = f"file descriptor {number}: {target}"
    return found


def _memory() -> Seen:
    found = {}
    for path in SHARED.iterdir() if SHARED.is_dir() else ():
        with suppress(OSError):  # removed meanwhile
            status = path.stat()
            if status.st_uid == os.getuid():
                found[path.name, status.st_ino] = f"shared memory {path.name}"
    return found


def _has_open(pid: int, inode: int) -> bool:
    """Whether a process has this shared memory mapped. False for a process that this user may not inspect."""
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
        return any(str(SHARED) in line and line.split()[4] == str(inode) for line in lines)
    return False


def _files() -> Seen:
    """Return the temporary files of this run's own folder, except torch's cache, which some import makes."""
    found = Path(tempfile.gettempdir()).iterdir()
    return {path: f"temporary file {path.name}" for path in found if not path.name.startswith("torchinductor_")}


def _servants() -> set[int]:
    """Return the processes that Python's multiprocessing keeps for itself until the end."""
    found = _servant("forkserver", "_forkserver_pid"), _servant("resource_tracker", "_pid")
    return {pid for pid in found if pid is not None}


def _servant(module: str, what: str) -> int | None:
    found: int | None = getattr(getattr(sys.modules.get(f"multiprocessing.{module}"), f"_{module}", None), what, None)
    return found


LOOKS: Mapping[str, Callable[[], Seen]] = {
    "threads": _threads,
    "descriptors": _descriptors,
    "memory": _memory,
    "files": _files,
}
# All kinds; the last two concern the roles of an idle world.
KINDS = ("processes", *LOOKS, "rrefs", "contexts")
