"""A process that can become the forkserver of a pytest process: it is a fork of one that has torch, and need not
import it again, for a second or two of every trial.

`multiprocessing` starts its forkserver as ``python -c 'from multiprocessing.forkserver import main; main(...)'``. The
first such command of a pytest process is run by its spare one, in the folder, with the environment, the descriptors
and the blocked signals that the new process would have had. It imports nothing of this project beforehand.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from fcntl import F_DUPFD_CLOEXEC, fcntl
from multiprocessing import util
from types import ModuleType
from typing import Any, NoReturn

_COMMAND = "from multiprocessing.forkserver import main; "
_STREAMS = (0, 1, 2)
_ROOM = 1 << 17  # for a command with its environment (bytes)
_ABOVE = 500  # no descriptor of a command is as high
_LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]


def offer() -> None:
    """Fork the spare process, and let this process's `multiprocessing` use it as its first forkserver."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        ours.close()
        _wait(theirs)
    theirs.close()
    start, asked = util.spawnv_passfds, [ours]
    options = _options()

    def spawn(path: bytes, args: Sequence[Any], passfds: Sequence[int]) -> int:
        plain = options == _options() and "FAULTS_RUN" not in os.environ  # which starts a plan with Python
        code = args[args.index("-c") + 1] if "-c" in args else ""
        if not asked or not plain or not str(code).startswith(_COMMAND):
            return start(path, args, passfds)
        with asked.pop() as spare:
            _send(spare, code, passfds)
        return pid

    util.spawnv_passfds = spawn


def _options() -> list[str]:
    """Return the options of Python that it passes on to the processes that it starts."""
    return list(util._args_from_interpreter_flags())  # type: ignore[attr-defined]


def _send(spare: socket.socket, command: str, passed: Sequence[int]) -> None:
    """Send the spare process the command, with everything that a new process would inherit from this one."""
    descriptors = list(dict.fromkeys([*_STREAMS, *passed]))
    order = {
        "command": command,
        "environment": dict(os.environ),
        "folder": os.getcwd(),  # noqa: PTH109 (as text)
        "blocked": [int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, ())],
        "ignored": [int(each) for each in signal.valid_signals() if signal.getsignal(each) is signal.SIG_IGN],
        "limits": [resource.getrlimit(each) for each in _LIMITS],
        "numbers": descriptors,
    }
    socket.send_fds(spare, [json.dumps(order).encode()], descriptors)


def _wait(asked: socket.socket) -> NoReturn:
    """Wait for a command, or until no process can give one any more."""
    status = 1
    try:
        message, handles, _, _ = socket.recv_fds(asked, _ROOM, 64)
        asked.close()
        if message:
            order = json.loads(message)
            _take_over(handles, order)
            _run(order["command"])
        status = 0
    except SystemExit as end:
        status = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _take_over(handles: list[int], order: Mapping[str, Any]) -> None:
    """Take over what was sent. Signals have their default actions, as in a new Python."""
    for handle, number in zip([_moved(handle) for handle in handles], order["numbers"], strict=True):
        os.dup2(handle, number)
        os.close(handle)
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["folder"])
    for each, limit in zip(_LIMITS, order["limits"], strict=True):
        if resource.getrlimit(each) != tuple(limit):
            resource.setrlimit(each, limit)
    for number in order["ignored"]:
        with suppress(OSError):
            signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, order["blocked"])


def _moved(handle: int) -> int:
    """Move a descriptor away from those that the command names."""
    moved = fcntl(handle, F_DUPFD_CLOEXEC, _ABOVE)
    os.close(handle)
    return moved


def _run(command: str) -> None:
    sys.argv = ["-c"]
    sys.path[:1] = ["", *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    main = sys.modules["__main__"] = ModuleType("__main__")
    run: Callable[..., None] = exec
    run(command, vars(main))
