"""A process that can become the forkserver of a pytest process: it is a fork of one that has torch, and need not
import it again, for a second or two of every trial.

`multiprocessing` starts its forkserver as ``python -c 'from multiprocessing.forkserver import main; main(...)'``. The
first such command of a pytest process is run by its spare one, in the folder, with the environment, the descriptors
and the blocked signals that the new process would have had. It imports nothing of this project beforehand.
"""

from __future__ import annotations

import os
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from multiprocessing import util
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from tests.preforked import inheritance
else:
    import inheritance

_COMMAND = "from multiprocessing.forkserver import main; "
_STREAMS = (0, 1, 2)


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
        if not asked or not plain or not str(args[-1]).startswith(_COMMAND):
            return start(path, args, passfds)
        with asked.pop() as spare:
            _send(spare, args[-1], passfds)
        return pid

    util.spawnv_passfds = spawn


def _options() -> list[str]:
    """Return the options of Python that it passes on to the processes that it starts."""
    return list(util._args_from_interpreter_flags())  # type: ignore[attr-defined]


def _send(spare: socket.socket, command: str, passed: Sequence[int]) -> None:
    """Send the spare process everything that a new process would inherit."""
    descriptors = {number: number for number in (*_STREAMS, *passed)}
    folder = os.getcwd()  # noqa: PTH109 (as text)
    inheritance.send(spare, descriptors, environment=os.environ, folder=folder, command=command)


def _wait(asked: socket.socket) -> NoReturn:
    """Wait for a command, or until no process can give one any more."""
    status = 1
    try:
        order, handles = inheritance.received(asked)
        asked.close()
        if order:
            inheritance.take_over(handles, **order["inherited"])
            _run(order["command"])
        status = 0
    except SystemExit as end:
        status = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _run(command: str) -> None:
    sys.argv = ["-c"]
    sys.path[:1] = ["", *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    main = sys.modules["__main__"] = ModuleType("__main__")
    run: Callable[..., None] = exec
    run(command, vars(main))
