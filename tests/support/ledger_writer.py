"""A process that writes a ledger until it is killed: ``python -m tests.support.ledger_writer FOLDER HOW``.

It says ``ready`` once 300 lines are written. HOW is ``plain``, ``torn``: in the middle of a line,
or ``buffered``, the planted bug: lines that wait in the process.
"""

from __future__ import annotations

import itertools
import resource
import signal
import sys
from pathlib import Path
from typing import Any

from faults.ledger import Ledger

ACKNOWLEDGED = 300


class Buffered(Ledger):
    """Writes its lines only when there are enough of them."""

    def __init__(self, folder: Path, role: str) -> None:
        super().__init__(folder, role)
        self.stream = self.path.open("a", buffering=1 << 20)

    def write(self, event: str, **details: Any) -> None:
        if event == "start":
            super().write(event, **details)
        else:
            self.stream.write(f'{{"event": "{event}", "time": 1.0, "number": {details["number"]}}}\n')


def tear() -> None:
    """The kernel cuts a line short, and ends this process at the next one."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, 2 * (ledger.path.stat().st_size + 30,))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)


if __name__ == "__main__":
    ledger = (Buffered if sys.argv[2] == "buffered" else Ledger)(Path(sys.argv[1]), "ps")
    for number in itertools.count():
        ledger.write("invoke", number=number)
        if number == ACKNOWLEDGED - 1:
            if sys.argv[2] == "torn":
                tear()
            print("ready", flush=True)
            if sys.argv[2] == "buffered":
                sys.stdin.read()  # no further lines, which would flush these
