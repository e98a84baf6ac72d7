"""Order another process, or this one, to hold its GIL, and wait until it does."""

from __future__ import annotations

import json
import os
import select
from pathlib import Path

from faults.inject.process.target import EFFECT_SECONDS, CannotFireError


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
