"""Hold the GIL of this process, and measure for how long no other Python thread ran."""

from __future__ import annotations

import ctypes
import math
import signal
import threading
import time
from collections.abc import Callable

# Between two looks of the witness (seconds).
_LOOK_SECONDS = 0.001


def hold(seconds: float, write: Callable[..., object]) -> None:
    """Hold the GIL for so long, and write ``effective``, or ``failed`` with the reason.

    No signal shortens it: this thread gets none meanwhile, and handlers in Python run afterwards.
    """
    witness, blocked = Witness(), signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    begin = time.monotonic()
    try:
        hold_gil(seconds)
    finally:
        held = time.monotonic() - begin
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        finally:  # a handler may raise
            kept = witness.end()
            if kept >= seconds:
                write("effective", seconds=held, kept=kept)
            else:
                write("failed", why=f"another Python thread waited for {kept:.3f} s only")


class Witness:
    """Measures for how long another Python thread of this process was kept from running."""

    def __init__(self) -> None:
        self._over, self._begun = threading.Event(), threading.Event()
        self._longest = 0.0
        self._thread = threading.Thread(target=self._look, name="faults: witness", daemon=True)
        self._thread.start()
        self._begun.wait()

    def end(self) -> float:
        """Return the longest time between two looks (seconds)."""
        self._over.set()
        self._thread.join()
        return self._longest

    def _look(self) -> None:
        last, over = time.monotonic(), False
        self._begun.set()
        while not over:
            over = self._over.wait(_LOOK_SECONDS)
            now = time.monotonic()
            self._longest, last = max(self._longest, now - last), now


def hold_gil(seconds: float) -> None:
    """Sleep without letting any other thread have the GIL: `PyDLL` keeps it in a call."""
    ctypes.PyDLL(None).poll(None, ctypes.c_ulong(0), math.ceil(1000 * seconds))  # it goes on after a SIGSTOP
