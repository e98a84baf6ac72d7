"""Send Ctrl-C to a thread of a process."""

from __future__ import annotations

import ctypes
import signal
from pathlib import Path


def send_interrupt(process: int, thread: str) -> None:
    """``thread``: ``main``, to which the system delivers a signal of the terminal, or ``another`` one if there is one.

    If another one takes it, the main thread goes on with its wait. The same happens if the signal arrives just before
    the wait.
    """
    threads = {int(each.name) for each in Path(f"/proc/{process}/task").iterdir()}
    chosen = process if thread == "main" else max(threads - {process}, default=process)
    ctypes.CDLL(None).tgkill(process, chosen, signal.SIGINT)
