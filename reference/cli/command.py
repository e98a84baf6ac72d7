"""Wrap the `main` of ``python -m reference`` and ``python -m faults``: signals, and errors of the system."""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from types import ModuleType

from reference.system import interrupts


def status_of(module: str, *others: str, failed: int) -> int:
    """Run ``main`` of ``module`` and return the command's exit status: what ``main`` returns, or 130 if interrupted.

    ``others``: modules that ``main`` will import; here a signal in the middle of it still ends the command at once.
    ``failed``: the status after an error of the system, such as a pipe that nobody reads any more.
    """
    _open_streams()
    try:
        main = _imported(module, *others).main
        # A time limit or a closed terminal sends a signal, too. No script may be left running after it.
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
    # Python remembers an interrupt that passed through an `exec` of text, such as the import of a dataclass, until the
    # next `exec`. Without this line a command started by `-m` would end by SIGINT instead of with this status.
    exec("")
    return status


def _imported(module: str, *others: str) -> ModuleType:
    """Import modules without garbage collections, exclude them from all later ones, and return the first.

    Collections would find nothing in them, and take 0.5 of the 1.6 s of a command that only imports torch.
    """
    gc.disable()
    try:
        for name in others:
            import_module(name)
        return import_module(module)
    finally:
        gc.freeze()
        gc.enable()


def _open_streams() -> None:
    """Open the null device where a standard stream is closed.

    Otherwise the next file or socket would get that stream's number, and output would be written into it.
    """
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(handle, True)
    os.close(handle)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
