"""Wrap the `main` of ``python -m reference`` and ``python -m faults``: signals, and errors of the system."""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from types import ModuleType

from reference.system import interrupts


def status_of(module: str, failed: int) -> int:
    """The exit status of a command: what ``main`` of this module returns, 130 when it is interrupted.

    ``failed``: the status of an error of the system, such as a pipe that nobody reads any more.
    """
    interrupts.leave_at_once()
    _open_streams()
    try:
        main = _imported(module).main
        # What a time limit sends, or a terminal that is closed, must not leave a script running either.
        interrupts.listen()
        status: int = main(sys.argv[1:])
        sys.stdout.flush()
        interrupts.over()
    except KeyboardInterrupt:
        interrupts.over()
        print("interrupted", file=sys.stderr)
        status = interrupts.STATUS
    except OSError as error:
        interrupts.over()
        print(f"error: {error}", file=sys.stderr)
        status = failed
    # Python remembers an interrupt that has passed through an `exec` of text, such as the import of a dataclass, until
    # the next `exec`: a command that is started by `-m` would end by SIGINT, and not with this status.
    exec("")
    return status


def _imported(module: str) -> ModuleType:
    """The module, imported without garbage collections, and left out of all later ones, which would find nothing in it.

    They take 0.5 of the 1.6 s of a command that does nothing but import torch.
    """
    gc.disable()
    try:
        return import_module(module)
    finally:
        gc.freeze()
        gc.enable()


def _open_streams() -> None:
    """Put the null device where a standard stream is closed: the next file or socket would be there, and written to."""
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(handle, True)
    os.close(handle)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
