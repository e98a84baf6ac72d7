"""Which exception ended a process of a program that knows nothing of faults: its exit status alone cannot tell RPC's
own error from a result that the program found wrong."""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Callable
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Any

from faults import farewell
from faults.causes import pieces_of, to_json
from faults.certainty import first_line, raised_there
from faults.delivery import Desk
from faults.failures import COMMAND
from faults.ledger import Ledger

# By these a process only passes on how one that it has started ended.
_OF_ANOTHER = ("ProcessException", "ChildFailedError", "CalledProcessError")


def watch(folder: Path) -> None:
    """Write down what ends this process, or one that multiprocessing starts from it: ``raised``, with its types."""
    sys.excepthook = partial(_leave, folder, sys.excepthook)
    BaseProcess.run = _watched(folder, BaseProcess.run)  # type: ignore[assignment, method-assign]
    farewell.watch(folder)


def _leave(
    folder: Path,
    hook: Callable[..., object],
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
) -> None:
    _write(folder, error)
    hook(kind, error, trace)


def _watched(folder: Path, run: Callable[[Any], object]) -> Callable[[Any], None]:
    def watched(self: Any) -> None:
        try:
            run(self)
        except SystemExit as error:
            # `mp.spawn` has passed it on to who called it, and exits from within the handler.
            if error.__context__ is not None and error.code not in (None, 0):
                _write(folder, error.__context__)
            raise
        except BaseException as error:
            _write(folder, error)
            raise

    return watched


def _write(folder: Path, error: BaseException) -> None:
    """In the ledger of the role that this process, not one that it was forked from, plays or has played."""
    kind = getattr(builtins, raised_there(str(error)) or "", type(error))
    bases = [each.__name__ for each in kind.__mro__ if each is not object]
    if not isinstance(error, Exception) or not set(bases).isdisjoint(_OF_ANOTHER):
        return
    ledger = None if Desk.open is None else Desk.open.ledger
    if ledger is None or ledger.process != os.getpid():
        ledger = Ledger(folder, COMMAND)
    ledger.write("raised", bases=bases, error=first_line(error), causes=to_json(pieces_of(error)))
