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
def wards() -> Iterator[dict[str, str]]:
    """What is yielded are environment variables; whatever has been started with them is ended on leaving, and when this
    process ends."""
    name = f"FAULTS_SCRIPT_{os.getpid()}_{time.time_ns()}"
    command = [sys.executable, "-I", "-S", str(_PROGRAM), name]
    with held():  # it has interrupts blocked as long as it lives
        warden = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield {name: "1"}
    finally:
        warden.communicate()  # ends its input
