"""Record how each process of a script ends, because only its parent sees that.

- ``raised`` in a ledger: an uncaught exception (`faults.hook`), also of a process of multiprocessing.
- ``exit`` in the role's ledger: Python ends in order.
- the file ``+.PID.status``: the status with which the process really ended. C writes it when no Python runs any more.
  It stays empty if a signal or `os._exit` ended the process.

A process that did none of these is gone without a word.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import os
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing.process import BaseProcess, parent_process
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

from faults import hook
from faults.inject.call.delivery import CalleeState
from faults.ledger.ledger import Ledger
from faults.ledger.run_files import STATUS
from faults.script.stacks import NUMBER

# Where `mp.spawn` executes a function in a child.
_SPAWN = "torch.multiprocessing.spawn"
# The files to which C writes exit statuses: process id to file descriptor.
_files: dict[int, int] = {}
# The processes that have written ``exit``: this one, and those that it was forked from.
_left: set[int] = set()
# The error that the parent had ended by when it forked this process.
_inherited: list[BaseException | None] = []


def watch(folder: Path) -> None:
    """Record how this process and its forked children end."""
    process: Any = BaseProcess
    process._bootstrap = _watched(folder, process._bootstrap)
    if parent_process() is not None:  # a child, whose own bootstrap has begun: its function imports RPC
        Finalize(None, _note_child, (folder,), exitpriority=-1)  # after the wait for its own children
    atexit.register(_note, folder)
    os.register_at_fork(after_in_child=_forget)
    hook.on_activate.append(_write_status)


def _watched(folder: Path, bootstrap: Callable[..., int]) -> Callable[..., int]:
    """Replace the function that a child of multiprocessing executes, because it swallows all errors of `run`, and
    because a forked child ends by `os._exit` when it has returned."""

    def watched(self: Any, *args: Any, **kwargs: Any) -> int:
        self.run = partial(_run, folder, self.run)
        status = bootstrap(self, *args, **kwargs)
        _note(folder, status)
        return status

    return watched


def _run(folder: Path, run: Callable[[], object]) -> None:
    failed = None
    try:
        run()
    except BaseException as error:
        failed = error
    if failed is None:
        return
    try:
        # Not in the handler: an error that is met in there, such as of a call, would get this one as its context.
        with suppress(Exception):  # as in `hook`
            hook.tell_uncaught(folder, _passed_on(failed) or failed)
        raise failed
    finally:
        del failed  # no circle with its own frame


def _note_child(folder: Path) -> None:
    """Runs when the function of a child of multiprocessing has ended, while its error is on its way.

    In a thread, which handles no error: one that is met there, such as of a call, would get this one as its context.
    """
    error, status = sys.exc_info()[1], 0
    if isinstance(error, SystemExit):
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    elif error is not None:
        status = 1
    telling = threading.Thread(target=_tell_child, args=(folder, error, status))
    telling.start()
    telling.join()


def _tell_child(folder: Path, error: BaseException | None, status: int) -> None:
    if error is not None:
        with suppress(Exception):  # as in `hook`
            hook.tell_uncaught(folder, _passed_on(error) or error)
    _note(folder, status)


def _passed_on(error: BaseException) -> BaseException | None:
    """Return the error that `mp.spawn` has passed on to its caller before it exits, from within the handler; None if
    it was the program that raised ``error``."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return error.__context__ if frame.f_globals.get("__name__") == _SPAWN else None


def _write_status(folder: Path, ledger: Ledger) -> None:
    """Let `exit` of the C library record its status: glibc's ``on_exit`` calls ``fputc(status, file)``."""
    libc = ctypes.CDLL(None)
    if os.getpid() in _files or not hasattr(libc, "on_exit"):
        return
    handle = os.open(folder / f"+.{os.getpid()}{STATUS}", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644)
    with suppress(OSError):  # a limit of open files below that number
        high = fcntl.fcntl(handle, fcntl.F_DUPFD_CLOEXEC, NUMBER)
        os.close(handle)
        handle = high
    libc.fdopen.restype = ctypes.c_void_p
    file = ctypes.c_void_p(libc.fdopen(handle, b"w"))
    libc.setvbuf(file, None, 2, 0)  # unbuffered: torch's threads may abort the process after this
    libc.on_exit(ctypes.cast(libc.fputc, ctypes.c_void_p), file)
    _files[os.getpid()] = handle


def _forget() -> None:
    """Reset the state in a forked child, which plays no role yet."""
    _inherited[:] = [sys.exc_info()[1], getattr(sys, "last_value", None)]
    for handle in _files.values():  # the child inherits the parent's file and the hook that writes to it
        with suppress(OSError), Path(os.devnull).open("wb") as nothing:
            os.close(handle)  # dup2 cannot, if the limit of open files is below that number now
            os.dup2(nothing.fileno(), handle)
    _files.clear()


def _note(folder: Path, status: int | None = None) -> None:
    """Write ``exit`` to the ledger, once, and an uncaught error that is not recorded yet."""
    _tell_last(folder)
    callee = CalleeState.of_this_process()
    if callee is not None and os.getpid() not in _left:
        _left.add(os.getpid())
        callee.settle()
        callee.ledger.write("exit", status=status)


def _tell_last(folder: Path) -> None:
    """Record an uncaught error of a program that has replaced `sys.excepthook`: C stores the error before it calls
    that."""
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)  # the latter alone until Python 3.12
    if error is None or any(error is each for each in _inherited):
        return
    trace = error.__traceback__
    # pytest and consoles store errors there, too, after they caught them. Such an error has not left all frames.
    if trace is not None and trace.tb_frame.f_back is None:
        hook.tell_uncaught(folder, error)
