"""Order another process, or this one, to hold its GIL, and wait until it does."""

from __future__ import annotations

import ctypes
import json
import math
import operator
import os
import select
import signal
import threading
import time
from collections import deque
from contextlib import suppress
from itertools import starmap
from pathlib import Path
from typing import Any

from faults.inject.process.target import EFFECT_SECONDS, CannotFireError
from faults.ledger.ledger import Ledger

# Between two looks of the witness (seconds).
_LOOK_SECONDS = 0.001
_MONOTONIC, _ABSOLUTE = 1, 1  # CLOCK_MONOTONIC and TIMER_ABSTIME of Linux


class GilHolder:
    """Waits for orders in a thread of its own. `close` ends it."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._orders, self._entrance = os.pipe()
        threading.Thread(target=self._serve, name="faults: hold", daemon=True).start()
        ledger.write("listens", orders=self._entrance)

    def close(self) -> None:
        with suppress(BrokenPipeError):  # its thread has ended by an order that nobody writes
            os.write(self._entrance, b"\n")
        os.close(self._entrance)

    def _serve(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())  # nothing shortens a hold
        with os.fdopen(self._orders, "rb") as orders:
            for line in iter(orders.readline, b"\n"):
                self._hold(**json.loads(line))

    def _hold(self, seconds: float, answer: str, details: dict[str, Any]) -> None:
        witness, handle = Witness(), os.open(answer, os.O_WRONLY)
        begin = time.monotonic()
        try:
            hold_gil(seconds, handle)
            self._record(seconds, time.monotonic() - begin, witness.end(), details)
            with suppress(BrokenPipeError):  # another role waits for the beginning only
                os.write(handle, b"!")
        finally:
            os.close(handle)

    def _record(self, seconds: float, held: float, kept: float, details: dict[str, Any]) -> None:
        if kept >= seconds:
            self._ledger.write("effective", **details, pid=os.getpid(), seconds=held, kept=kept)
        else:
            self._ledger.write("failed", **details, why=f"another Python thread waited for {kept:.3f} s only")


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


class _Time(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def hold_gil(seconds: float, handle: int) -> None:
    """Write a byte to ``handle``, and sleep, without letting any other thread have the GIL.

    `PyDLL` keeps the GIL in a call. `starmap` goes from the first call to the second one without the interpreter, which
    could let another thread run between them.
    """
    library = ctypes.PyDLL(None)
    library.write.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t]
    library.clock_nanosleep.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.POINTER(_Time), ctypes.c_void_p]
    part, whole = math.modf(time.monotonic() + seconds)
    until = ctypes.pointer(_Time(int(whole), int(part * 1e9)))
    calls = [(library.write, handle, b"!", 1), (library.clock_nanosleep, _MONOTONIC, _ABSOLUTE, until, None)]
    deque(starmap(operator.call, calls), maxlen=0)


def entrance_of(ledger: Path, pid: int) -> str:
    """Return the path at which this process takes orders. Raises CannotFireError: it takes none."""
    lines = ledger.read_bytes().split(b"\n")
    whole = (line for line in lines if line.startswith(b'{"event": "listens"') and line.endswith(b"}"))
    own = [told for told in map(json.loads, whole) if told.get("process") == pid]
    if not own:
        raise CannotFireError(f"process {pid} takes no orders to hold its GIL")
    return f"/proc/{pid}/fd/{int(own[-1]['orders'])}"


def order_hold(entrance: str, target: int, seconds: float, named: dict[str, object], *, itself: bool) -> None:
    """Order a hold and wait until it has begun; in the process ``itself`` until it is over and recorded.

    ``target`` is the process's pidfd. Raises CannotFireError: the hold has not begun.
    """
    begun, answer = os.pipe()
    try:
        order = {"seconds": seconds, "answer": f"/proc/{os.getpid()}/fd/{answer}", "details": named}
        handle = os.open(entrance, os.O_WRONLY)
        try:
            os.write(handle, json.dumps(order).encode() + b"\n")
        finally:
            os.close(handle)
        ready = select.select([begun, target], [], [], EFFECT_SECONDS)[0]
        if begun not in ready:
            raise CannotFireError("it ended before it held its GIL" if ready else "it did not hold its GIL")
        os.read(begun, 1)
        if itself:
            select.select([begun], [], [], EFFECT_SECONDS)
    finally:
        os.close(begun)
        os.close(answer)
