"""What a process of a script leaves about its own end, since its exit status is for its parent alone.

``exit`` in its ledger: Python has ended in order, or `os._exit` or `os.execv` was called. Without it a signal has ended
it. A file
``+.PID.status``: the status with which the process really ended, whatever ended it (an uncaught error, `SystemExit`, a
hook of the program's own); C writes it, when no Python runs any more. It stays empty after these two, whose ``exit``
says ``final``, and where a signal has ended the process while Python took itself apart. A file ``ROLE.PID.term`` with
something in it: it was asked to end, by SIGTERM, by whomever; ``+.PID.term``: by a Python process of its own program,
by a signal (`own_signals` writes it); ``ROLE.PID.int``: by SIGINT.
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
from faults.script.handled_errors import is_handled, was_caught
from faults.script.own_signals import SUFFIX
from faults.tracebacks.error_chain import pieces_of, to_json

INTERRUPTED, STATUS = ".int", ".status"

# What asks a process to end, and leaves it the time to say so.
_SIGNALS = {signal.SIGTERM: SUFFIX, signal.SIGINT: INTERRUPTED}

# What `sys.exit` or `os._exit` was last called with, and the error that was being handled then.
_last: dict[str, Any] = {}
# What the parent was handling, or had ended by, when it forked this process.
_inherited: list[BaseException | None] = []
# What `sys.exit` has raised last.
_leaving: list[SystemExit] = []
# Called first of all when this process ends: what else there is to write down.
_before: list[Callable[[], None]] = []
# Kept open for the handler in C that writes to it.
_open: list[IO[str]] = []
# Where C writes this process's status: its number and the file's.
_status: dict[int, int] = {}


def watch(before: Callable[[], None]) -> None:
    """Of this process, and of those that are forked from it. ``before`` is called when one of them ends."""
    _before[:] = [before]
    atexit.register(_note)
    doors["_exit"] = partial(_exit_now, doors["_exit"])
    for name in ("execv", "execve"):
        doors[name] = partial(_become, doors[name])
    sys.exit = partial(_exit, sys.exit)
    for name in ("exit", "quit"):  # of `site`, which raise SystemExit by themselves
        if hasattr(builtins, name):
            setattr(builtins, name, partial(_exit, getattr(builtins, name)))
    os.register_at_fork(after_in_child=_forget)
    hook.on_activate.append(_listen)


def is_interrupted(folder: Path) -> bool:
    """Whether this process has been sent SIGINT since it plays a role."""
    return any(path.stat().st_size for path in folder.glob(f"*.{os.getpid()}{INTERRUPTED}"))


def is_inherited(error: BaseException) -> bool:
    """Whether it has met the process that this one was forked from."""
    return any(error is each for each in _inherited)


def statuses(folder: Path) -> dict[int, int]:
    """The status of each process that has ended by the C library's `exit`."""
    return {pid: told[-1] for pid, told in _told(folder).items() if told}


def silent(folder: Path) -> set[int]:
    """The processes that have not, or not yet, ended so, and were to write it down."""
    return {pid for pid, told in _told(folder).items() if not told}


def _told(folder: Path) -> dict[int, bytes]:
    """What C has written, by process."""
    files = folder.glob(f"+.*{STATUS}")
    return {int(path.name.removesuffix(STATUS).rpartition(".")[2]): path.read_bytes() for path in files}


def _write_status(folder: Path) -> None:
    """Let `exit` of the C library write its status down: ``fputc(status, file)``, as glibc's ``on_exit`` calls it."""
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
    """In C, so that it works while no Python can run; what a signal does to the process stays as it is."""
    _write_status(folder)
    files = []
    for number, suffix in _SIGNALS.items():
        if signal.getsignal(number) is not signal.SIG_IGN:  # what it starts would ignore it no more
            files.append((folder / f"{ledger.role}.{os.getpid()}{suffix}").open("w"))
            faulthandler.register(number, file=files[-1], all_threads=False, chain=True)
    _open[:] = files


def _forget() -> None:
    """A child that is forked from a role plays none, so far."""
    _last.clear()
    _inherited[:] = [sys.exc_info()[1], getattr(sys, "last_value", None)]
    for handle in _status.values():  # its parent's: what `exit` calls is inherited
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), handle)
    _status.clear()
    if _open:
        for number in _SIGNALS:
            faulthandler.unregister(number)
        _open.clear()


def _note(status: int | None = None, *, final: bool = False) -> None:
    """``final``: nothing is executed after this, so C writes no status."""
    for tell in _before:
        tell()
    desk = CalleeState.open
    if desk is not None and desk.ledger.process == os.getpid():
        desk.settle()
        last = {} if status is None and any(map(was_caught, _leaving)) else _last
        told = {"pid": os.getpid(), "status": status, "final": final, **last}
        if told["status"] is not None:
            told["status"] = int(told["status"])  # `sys.exit(not done)`, `os._exit(numpy.int64(1))`
        desk.ledger.write("exit", **told)


def _exit_now(exit_now: Callable[[int], NoReturn], status: int) -> NoReturn:
    """Stands for `os._exit`, by which also processes end that multiprocessing has forked, with the status that
    `sys.exit` was called with."""
    try:
        if _last.get("status") != status and not _remember(status):
            _last.clear()
        _note(status, final=True)
    finally:  # whatever went wrong in writing that down, this is the end
        exit_now(status)


def _become(execute: Callable[..., NoReturn], path: Any, *arguments: Any, **named: Any) -> NoReturn:
    """Stands for `os.execv` and `os.execve`, by which a role is over, and its process goes on as another program. Not
    where that is not there: `os.execvp` tries each folder of PATH."""
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
    """Take an ``exit`` back: the process goes on as it was."""
    _last.clear()
    desk = CalleeState.open
    if desk is not None and desk.ledger.process == os.getpid():
        with suppress(OSError):
            desk.ledger.write("stayed")


def _exit(leave: Callable[[Any], NoReturn], code: Any = None) -> NoReturn:
    """Stands for `sys.exit`. multiprocessing calls it once more, with the status that its target chose."""
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
    """With a status the error that is being handled, if one is. With 0 also whether the program really handles it."""
    error = met = sys.exc_info()[1]
    while isinstance(error, SystemExit):  # what was being handled when somebody raised that
        error = error.__context__
    if status == 0 and isinstance(met, SystemExit) and met.code not in (None, 0):
        error = error or met  # a status, or a sentence, of which a `finally` block makes nothing
        handled: bool | None = is_handled(met)
    else:
        # Whoever raises SystemExit in handling it has handled it; an interrupt is no mistake of the program.
        passing = status == 0 and error is met and isinstance(error, Exception)
        handled = is_handled(error) if passing and error is not None else True
    if error is None or is_inherited(error):
        return False
    _last.update(status=status, causes=to_json(pieces_of(error)), handled=handled)
    return True
