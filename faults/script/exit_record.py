"""Record how a process of a script ends, because only its parent sees its exit status.

These say it:

- ``exit`` in the role's ledger: Python ended in order, or the process called `os._exit` or `os.execv`. Without it a
  signal ended the process.
- the file ``+.PID.status``: the status with which the process really ended, for whatever reason (an uncaught error,
  `SystemExit`, a hook of the program's own). C writes it when no Python runs any more. It stays empty after `os._exit`
  and `os.execv`, whose ``exit`` says ``final``, and if a signal ended the process while Python finalized.
- a file ``ROLE.PID.term`` that is not empty: some process asked this one to end, by SIGTERM.
- ``+.PID.term``: a Python process of the same program ended it by a signal (`own_signals` writes this file).
- ``ROLE.PID.int``: some process sent SIGINT.
"""

from __future__ import annotations

import atexit
import builtins
import ctypes
import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, NoReturn

from faults import hook
from faults.inject.call.delivery import CalleeState
from faults.ledger.ledger import Ledger
from faults.script.exit_hooks import doors
from faults.script.exit_statuses import STATUS
from faults.script.handled_errors import is_handled, was_caught
from faults.script.own_signals import SUFFIX
from faults.tracebacks.error_chain import pieces_of, to_json

INTERRUPTED = ".int"

# Signals that ask a process to end, and leave it the time to record them.
_SIGNALS = {signal.SIGTERM: SUFFIX, signal.SIGINT: INTERRUPTED}

# The status of the last call of `sys.exit` or `os._exit`, and the error that was being handled then.
_last: dict[str, Any] = {}
# The error that the parent was handling, or had ended by, when it forked this process.
_inherited: list[BaseException | None] = []
# The last error that `sys.exit` raised.
_leaving: list[SystemExit] = []
# Called first when this process ends, to record other things.
_before: list[Callable[[], None]] = []
# Kept open for the handler in C that writes to it.
_open: list[IO[str]] = []
# The files to which C writes exit statuses: process id to file descriptor.
_status: dict[int, int] = {}


def watch(before: Callable[[], None]) -> None:
    """Record how this process and its forked children end. ``before`` is called when one of them ends."""
    _before[:] = [before]
    atexit.register(_note)
    doors["_exit"] = partial(_exit_now, doors["_exit"])
    for name in ("execv", "execve"):
        doors[name] = partial(_become, doors[name])
    sys.exit = partial(_exit, sys.exit)
    for name in ("exit", "quit"):  # from `site`; they raise SystemExit by themselves
        if hasattr(builtins, name):
            setattr(builtins, name, partial(_exit, getattr(builtins, name)))
    os.register_at_fork(after_in_child=_forget)
    hook.on_activate.append(_listen)


def is_interrupted(folder: Path) -> bool:
    """Whether this process has received SIGINT since it began to play a role."""
    return any(path.stat().st_size for path in folder.glob(f"*.{os.getpid()}{INTERRUPTED}"))


def is_inherited(error: BaseException) -> bool:
    """Whether the error comes from the process that this one was forked from."""
    return any(error is each for each in _inherited)


def _write_status(folder: Path) -> None:
    """Let `exit` of the C library record its status: glibc's ``on_exit`` calls ``fputc(status, file)``."""
    libc = ctypes.CDLL(None)
    if os.getpid() in _status or not hasattr(libc, "on_exit"):
        return
    handle = os.open(folder / f"+.{os.getpid()}{STATUS}", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644)
    libc.fdopen.restype = ctypes.c_void_p
    file = ctypes.c_void_p(libc.fdopen(handle, b"w"))
    libc.setvbuf(file, None, 2, 0)  # unbuffered: torch's threads may abort the process after this
    libc.on_exit(ctypes.cast(libc.fputc, ctypes.c_void_p), file)
    _status[os.getpid()] = handle


def _listen(folder: Path, ledger: Ledger) -> None:
    """Record signals in C, so that it works while no Python can run. The effect of a signal stays the same."""
    _write_status(folder)
    files = []
    for number, suffix in _SIGNALS.items():
        if signal.getsignal(number) is not signal.SIG_IGN:  # otherwise its children would not ignore it any more
            files.append((folder / f"{ledger.role}.{os.getpid()}{suffix}").open("w"))
            faulthandler.register(number, file=files[-1], all_threads=False, chain=True)
    _open[:] = files


def _forget() -> None:
    """Reset the state in a forked child, which plays no role yet."""
    _last.clear()
    _inherited[:] = [sys.exc_info()[1], getattr(sys, "last_value", None)]
    for handle in _status.values():  # the child inherits the parent's file and the hook that writes to it
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), handle)
    _status.clear()
    if _open:
        for number in _SIGNALS:
            faulthandler.unregister(number)
        _open.clear()


def _note(status: int | None = None, *, final: bool = False) -> None:
    """Write ``exit`` to the ledger. ``final``: nothing is executed after this, so C writes no status."""
    for tell in _before:
        tell()
    callee = CalleeState.open
    if callee is not None and callee.ledger.process == os.getpid():
        callee.settle()
        last = {} if status is None and any(map(was_caught, _leaving)) else _last
        told = {"pid": os.getpid(), "status": status, "final": final, **last}
        if told["status"] is not None:
            told["status"] = int(told["status"])  # `sys.exit(not done)`, `os._exit(numpy.int64(1))`
        callee.ledger.write("exit", **told)


def _exit_now(exit_now: Callable[[int], NoReturn], status: int) -> NoReturn:
    """Replace `os._exit`. Processes that multiprocessing forked end by it, too, with the status of `sys.exit`."""
    try:
        if _last.get("status") != status and not _remember(status):
            _last.clear()
        _note(status, final=True)
    finally:  # the process ends even if recording failed
        exit_now(status)


def _become(execute: Callable[..., NoReturn], path: Any, *arguments: Any, **named: Any) -> NoReturn:
    """Replace `os.execv` and `os.execve`. They end a role, because its process continues as another program.

    If that program does not exist, the role goes on: `os.execvp` tries each folder of PATH.
    """
    there = isinstance(path, int) or (os.path.isfile(path) and os.access(path, os.X_OK))  # noqa: PTH113 (bytes too)
    if there:
        with suppress(Exception):
            if not _remember(0):
                _last.clear()
            _note(0, final=True)
    try:
        execute(path, *arguments, **named)
    finally:  # it could not be executed
        if there:
            _stay()


def _stay() -> None:
    """Revoke an ``exit``, because the process goes on as before."""
    _last.clear()
    callee = CalleeState.open
    if callee is not None and callee.ledger.process == os.getpid():
        with suppress(OSError):
            callee.ledger.write("stayed")


def _exit(leave: Callable[[Any], NoReturn], code: Any = None) -> NoReturn:
    """Replace `sys.exit`. multiprocessing calls it once more, with the status that its target chose."""
    if threading.current_thread() is not threading.main_thread():
        leave(code)  # ends that thread alone
    status = code if isinstance(code, int) else 0 if code is None else 1
    if not _remember(status) and _last.get("status") != status:
        _last.clear()
        _last["status"] = status
    try:
        leave(code)
    except SystemExit as error:
        _leaving[:] = [error]
        raise


def _remember(status: int) -> bool:
    """Remember a status with the error that is being handled, if one is. With 0 also whether the program really handles
    the error."""
    error = met = sys.exc_info()[1]
    while isinstance(error, SystemExit):  # find the error that was being handled when it was raised
        error = error.__context__
    if status == 0 and isinstance(met, SystemExit) and met.code not in (None, 0):
        error = error or met  # a `finally` block replaces the status, or the message, of the SystemExit by 0
        handled: bool | None = is_handled(met)
    else:
        # A program that raises SystemExit while handling an error has handled it; an interrupt is no mistake of it.
        passing = status == 0 and error is met and isinstance(error, Exception)
        handled = is_handled(error) if passing and error is not None else True
    if error is None or is_inherited(error):
        return False
    _last.update(status=status, causes=to_json(pieces_of(error)), handled=handled)
    return True
