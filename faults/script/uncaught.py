"""Record which exception ended a process of a program that knows nothing of faults.

An exit status alone does not distinguish RPC's own error from a result that the program found wrong.
"""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Any

from faults.inject.call.delivery import CalleeState
from faults.ledger.ledger import Ledger
from faults.script import exit_record
from faults.tracebacks.certainty import first_line, raised_there
from faults.tracebacks.error_chain import pieces_of, to_json
from faults.verdict.failures import COMMAND, OF_ANOTHER
from reference.system.error_text import text_of

# The processes that have recorded their error: this one, and those that it was forked from.
_told: set[int] = set()
# The replacement of `sys.excepthook`. While it is in place, `_tell_last` has nothing to do.
_hook: list[object] = [None]


def watch(folder: Path) -> None:
    """Record the error that ends this process, or one that multiprocessing starts from it: ``raised``, with types."""
    sys.excepthook = _hook[0] = partial(_leave, folder, sys.excepthook)
    process: Any = BaseProcess
    process._bootstrap = _watched(folder, process._bootstrap)
    exit_record.watch(partial(_tell_last, folder))


def _leave(
    folder: Path,
    hook: Callable[..., object],
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
) -> None:
    with suppress(Exception):  # the folder was removed, or may not be written by the user that this process now has
        _write(folder, error)
    hook(kind, error, trace)


def _tell_last(folder: Path) -> None:
    """Record an uncaught error of a program with its own `sys.excepthook`: C stores the error before it calls any
    hook."""
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)  # the latter alone until Python 3.12
    if error is None or sys.excepthook is _hook[0] or os.getpid() in _told or exit_record.is_inherited(error):
        return
    trace = error.__traceback__
    # pytest and consoles store errors there, too, after they caught them. Such an error has not left all frames.
    if trace is not None and trace.tb_frame.f_back is None:
        _write(folder, error)


def _watched(folder: Path, bootstrap: Callable[..., int]) -> Callable[..., int]:
    """Replace the function that a child of multiprocessing executes, because it swallows all errors of `run`."""

    def watched(self: Any, *args: Any, **kwargs: Any) -> int:
        self.run = partial(_run, folder, self.run)
        return bootstrap(self, *args, **kwargs)

    return watched


def _run(folder: Path, run: Callable[[], object]) -> None:
    try:
        run()
    except SystemExit as error:
        # `mp.spawn` has passed the error on to its caller, and exits from within the handler.
        if error.__context__ is not None and error.code not in (None, 0):
            _write(folder, error.__context__)
        raise
    except BaseException as error:
        _write(folder, error)
        raise


def _write(folder: Path, error: BaseException) -> None:
    """Record the error in the ledger of the role that this process plays or has played, otherwise in the command's. A
    role of the process that this one was forked from does not count."""
    kind = getattr(builtins, raised_there(text_of(error)) or "", type(error))
    bases = [each.__name__ for each in kind.__mro__ if each is not object]
    state = CalleeState.open
    own = None if state is None or state.ledger.process != os.getpid() else state.ledger
    interrupted = own is not None and isinstance(error, KeyboardInterrupt)
    _told.add(os.getpid())
    if own is not None and interrupted and exit_record.is_interrupted(folder):
        own.write("interrupted")
    elif (isinstance(error, Exception) or interrupted) and set(bases).isdisjoint(OF_ANOTHER):
        ledger = own or Ledger(folder, COMMAND)
        ledger.write("raised", bases=bases, error=first_line(error), causes=to_json(pieces_of(error)))
