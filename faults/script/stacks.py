"""Let every Python process of a script write the stacks of all its threads when a signal comes. This needs no GIL.

This module is imported at the start of Python, so it needs only the standard library.
"""

from __future__ import annotations

import faulthandler
import fcntl
import os
import signal
from contextlib import suppress
from pathlib import Path

# All processes append to this file of the run's folder, one after the other, when `waits` asks them. Whoever starts a
# script makes it; where it is not, as in a prepared folder, nobody will ask.
STACKS = "+.stacks"

# A signal that no program is known to use. Python gives it no meaning of its own.
SIGNAL = signal.SIGRTMAX - 5

# From which number on a process has such files, where programs that close or reuse low numbers leave them alone.
NUMBER = 700


def watch(folder: Path) -> None:
    """Register the handler, which forked children inherit, with its file. A signal that is in use is left alone."""
    if signal.getsignal(SIGNAL) is not signal.SIG_DFL:
        return
    with suppress(OSError, ValueError):  # no such file, or a limit of open files below that number
        low = os.open(folder / STACKS, os.O_WRONLY | os.O_APPEND)
        try:
            file = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, NUMBER)
        finally:
            os.close(low)
        faulthandler.register(SIGNAL, file=file, all_threads=True, chain=False)


def leave_alone() -> None:
    """Undo `watch`, except for the open file."""
    faulthandler.unregister(SIGNAL)
