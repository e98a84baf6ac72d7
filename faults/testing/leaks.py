"""Compare what exists in and around a process before and after a test.

RRefs and autograd contexts are the roles' own: `faults.testing.idle_world` asks for them.
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

from faults.run.process_tree import command, ends_by, everybody, relatives
from reference.system import isolated_network
from reference.system.temporary_folders import MARK

# What is still there when a test ends has so long to go by itself (seconds).
GRACE = 10.0
SHARED = Path("/dev/shm")

# Something that is there, and its name for people.
Seen = Mapping[Any, str]


class Accounting:
    """Made before a test; `left` afterwards names what is new. ``mark``: see `faults.run.process_tree`."""

    def __init__(self, kinds: Collection[str], mark: str) -> None:
        self._mark = mark
        self._kinds = [kind for kind in ("processes", *LOOKS) if kind in kinds]
        self._pids = everybody()
        self._before = {kind: LOOKS[kind]() for kind in LOOKS}

    def left(self, besides: Collection[str] = ()) -> list[str]:
        """One line for each thing that this test has left, but of the kinds ``besides``; waits `GRACE` at most."""
        kinds = [kind for kind in self._kinds if kind not in besides]
        if not self._look(kinds):
            return []
        gc.collect()  # what only garbage holds is not left
        due = time.monotonic() + GRACE
        for pid in self._processes() if "processes" in kinds else ():
            ends_by(pid, due)
        for thread in self._new("threads") if "threads" in kinds else ():
            thread.join(max(0.0, due - time.monotonic()))
        return self._look(kinds)

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
        """Shared memory is, unless another run's process has it, or has its id in the name."""
        name, inode = key
        ours = relatives(everybody(), self._mark) | {os.getpid()}
        strangers = everybody() - ours
        if strangers & {int(part) for part in name.replace(".", "_").split("_") if part.isdecimal()}:
            return False
        return not any(_has_open(pid, inode) for pid in strangers)


def _threads() -> Seen:
    """Python's own: a thread of C++ that has once called Python stays listed after its end."""
    listed = threading.enumerate()
    return {each: f"thread {each.name}" for each in listed if not isinstance(each, threading._DummyThread)}


# What Python and the packages installed beside it have brought: a library may keep some of its own open for good.
_INSTALLED = tuple(sorted({f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "purelib", "platlib")}))


def _descriptors() -> Seen:
    """Open files of this process but those of Python's own servants and of isolated worlds, which are kept for the
    next, and those that a library has brought itself."""
    servants = {_servant("forkserver", "_forkserver_alive_fd"), _servant("resource_tracker", "_fd")}
    ours = servants | isolated_network.descriptors()
    lock = f"{multiprocessing.util.get_temp_dir()}{os.sep}{MARK}"  # of the forkserver's socket
    found = {}
    for number in os.listdir("/proc/self/fd"):  # noqa: PTH208 (twice a test)
        with suppress(OSError):  # the listing's own
            target = os.readlink(f"/proc/self/fd/{number}")  # noqa: PTH115 (twice a test)
            if int(number) not in ours and target != lock and not target.startswith(_INSTALLED):
                found[number, target] = f"file descriptor {number}: {target}"
    return found


def _memory() -> Seen:
    found = {}
    for path in SHARED.iterdir() if SHARED.is_dir() else ():
        with suppress(OSError):  # gone meanwhile
            status = path.stat()
            if status.st_uid == os.getuid():
                found[path.name, status.st_ino] = f"shared memory {path.name}"
    return found


def _has_open(pid: int, inode: int) -> bool:
    """Whether a process has shared memory mapped. One that may not be looked into has not."""
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
        return any(str(SHARED) in line and line.split()[4] == str(inode) for line in lines)
    return False


def _files() -> Seen:
    """Whatever is where temporary files go, which is this run's own folder, but torch's cache, made at some import."""
    found = Path(tempfile.gettempdir()).iterdir()
    return {path: f"temporary file {path.name}" for path in found if not path.name.startswith("torchinductor_")}


def _servants() -> set[int]:
    """Processes that Python's multiprocessing keeps for itself, once and for all."""
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
# All kinds; the last two are of an idle world's roles.
KINDS = ("processes", *LOOKS, "rrefs", "contexts")
