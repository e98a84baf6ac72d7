"""Start processes that end with this one, even if it is killed (`parent_watcher`)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reference.system.interrupts import held

_PROGRAM = Path(__file__).parent / "parent_watcher.py"


@contextmanager
def tied_environment() -> Iterator[dict[str, str]]:
    """Yield environment variables. Processes that are started with them are killed when the block ends, or when this
    process ends."""
    name = f"FAULTS_SCRIPT_{os.getpid()}_{time.time_ns()}"
    command = [sys.executable, "-I", "-S", str(_PROGRAM), name]
    with held():  # the watcher inherits blocked interrupts, and keeps them blocked
        watcher = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield {name: "1"}
    finally:
        watcher.communicate()  # closes its input, and waits until it ends
