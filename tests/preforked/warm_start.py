"""Start the Python programs of tests from a process that has torch, instead of from nothing (`warm_python`).

It takes the place of the function by which `subprocess.Popen` starts a process: all else stays `Popen`'s own, and the
process is a child of this one. Some commands cannot start so, and start from nothing: those with options of Python,
such as ``-X`` or ``-S``, with other variables of Python than this process has, or without `inheritance.ONE_THREAD`.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.preforked import inheritance

# From <linux/prctl.h>: orphaned descendants become children of this process, instead of the first process.
_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37

# How the variables begin that Python, or a library of torch, reads when it is loaded.
_OF_THE_START = ("PYTHON", "LD_", "OMP_", "KMP_", "GOMP_", "MKL_", "OPENBLAS_")

# What `subprocess` passes for a process with this one's group, users and mask for files, and nothing to call in it.
_SAME = (-1, None, None, None, -1, None)

# Bytes that an argument and a variable of the process with torch keep free for the command and the environment that
# /proc shows of a program.
_ROOM = 100_000

# Seconds until a program has been started, by a process that first imports torch.
_PATIENCE = 150.0

_fork_exec: Any = subprocess._fork_exec  # type: ignore[attr-defined]


class WarmPython:
    """Starts programs as forks of one process, which imports torch meanwhile. ``started``: how many it has started."""

    def __init__(self) -> None:
        self.started = 0
        self._owner, self._lock = os.getpid(), threading.Lock()
        self._variables = _of_the_start({**os.environ, **inheritance.ONE_THREAD})
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._connection.settimeout(_PATIENCE)
        room, unwanted = " " * _ROOM, ("PYTHONPATH", "FAULTS_RUN")
        variables = {name: value for name, value in os.environ.items() if name not in unwanted}
        script = str(Path(inheritance.__file__).with_name("warm_python.py"))
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, script, str(theirs.fileno()), room],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,  # like what most programs print to, it has no positions
                env={**variables, **inheritance.ONE_THREAD, "WARM_PYTHON_ROOM": room},
                pass_fds=[theirs.fileno()],
                process_group=0,
            )

    def fork_exec(self, *given: Any) -> int:
        """Start a process and return its id: what `subprocess` wants of its function of this name."""
        command, executables, close, kept, folder, variables, stdin, _, _, stdout, _, stderr, _, told, *how = given
        restore, session = how[:2]
        arguments = [os.fsdecode(each) for each in command]
        environment = dict(os.environ) if variables is None else _by_name(variables)
        place = os.path.join(os.getcwd(), os.fsdecode(folder or ""))  # noqa: PTH109, PTH118 (as text)
        plain = close and restore and tuple(how[2:8]) == _SAME and executables == (os.fsencode(sys.executable),)
        same = os.getpid() == self._owner and _of_the_start(environment) == self._variables
        if not (plain and same and _is_program(arguments, place, environment)):
            return int(_fork_exec(*given))
        streams = {number: own if own >= 0 else number for number, own in enumerate((stdin, stdout, stderr))}
        descriptors = streams | {each: each for each in kept if each != told}
        order = {"arguments": arguments, "group": 0 if session else os.getpgrp()}
        with self._lock, _adopting():
            inheritance.send(self._connection, descriptors, environment=environment, folder=place, **order)
            pid = self._connection.recv(16)
        if not pid:
            raise RuntimeError("the process that starts programs has ended")
        self.started += 1
        return int(pid)

    def end(self) -> None:
        """End the process with torch. The programs go on."""
        self._connection.close()
        with self._process as process:
            process.kill()


def _is_program(arguments: Sequence[str], place: str, environment: Mapping[str, str]) -> bool:
    """Whether a command's Python executes a file, a text or a module, without options, and /proc can show it."""
    first, *rest = arguments[1:] or [""]
    size = sum(map(len, [*arguments, *environment, *environment.values()]))
    file = first.endswith(".py") and not first.startswith("-") and Path(place, first).is_file()
    return size < _ROOM // 2 and (file or first == "-mpytest" or (bool(rest) and first in ("-c", "-m")))


def _by_name(variables: Iterable[bytes]) -> dict[str, str]:
    pairs = (os.fsdecode(each).partition("=") for each in variables)
    return {name: value for name, _, value in pairs}


def _of_the_start(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a process with torch cannot take over any more; PYTHONPATH it can."""
    return {
        name: value for name, value in environment.items() if name.startswith(_OF_THE_START) and name != "PYTHONPATH"
    }


@contextmanager
def _adopting() -> Iterator[None]:
    """Let descendants whose parent ends become children of this process, for a program that is just being started."""
    libc, was = ctypes.CDLL(None), ctypes.c_int(0)
    libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(was), 0, 0, 0)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, was.value, 0, 0, 0)
