"""A process that writes a ledger until it is killed: ``python -m tests.ledger_writer FOLDER HOW``.

It says ``ready`` once 300 lines are written. ``buffered`` is the planted bug: lines that wait in the process.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

from faults.ledger import Ledger

ACKNOWLEDGED = 300


class Buffered(Ledger):
    """Writes when there is enough to write."""

    def __init__(self, folder: Path, role: str) -> None:
        super().__init__(folder, role)
        self.stream = self.path.open("a", buffering=1 << 20)

    def write(self, event: str, **details: Any) -> None:
        if event == "start":
            super().write(event, **details)
        else:
            self.stream.write(f'{{"event": "{event}", "time": 1.0, "number": {details["number"]}}}\n')


if __name__ == "__main__":
    kind = {"buffered": Buffered, "plain": Ledger, "large": Ledger}[sys.argv[2]]
    ledger = kind(Path(sys.argv[1]), "ps")
    # Large lines are what a kill tears.
    filler = "x" * (1 << 23 if sys.argv[2] == "large" else 10)
    for number in itertools.count():
        ledger.write("invoke", number=number, filler=filler if number >= ACKNOWLEDGED else "")
        if number == ACKNOWLEDGED - 1:
            print("ready", flush=True)
            if isinstance(ledger, Buffered):
                sys.stdin.read()  # no more lines, which would push these out
