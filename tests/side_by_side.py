"""``python -m tests.side_by_side COMMAND COMMAND ...``: run commands at once, one word each. Exit status 1: one failed.

The first prints as it runs. The others run with lower priority, so that they take the time in which the first waits and
none of its deadlines; each prints when all have ended, in the order given.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import IO

NICER = 10
_ENDING = (signal.SIGINT, signal.SIGTERM)


def main(commands: Sequence[str]) -> int:
    begun = time.monotonic()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a signal to this process is meant for all commands
    first, *others = commands
    with ExitStack() as open_files:
        outputs = [open_files.enter_context(tempfile.TemporaryFile()) for _ in others]
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)  # until all are started, so that each can be ended
        started = [_start(first), *map(_start, others, outputs)]
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
            statuses = [process.wait() for process in started]
        except KeyboardInterrupt:
            _end(started)
            return 130
        for output in outputs:
            output.seek(0)
            sys.stdout.buffer.write(output.read())
    for command, status in zip(commands, statuses, strict=True):
        print(f"exit status {status}: {command}")
    print(f"all of them together: {time.monotonic() - begun:.0f} s", flush=True)
    return 1 if any(statuses) else 0


def _end(started: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in started:
        process.terminate()
    for process in started:
        process.wait()


def _start(command: str, output: IO[bytes] | None = None) -> subprocess.Popen[bytes]:
    """Start a command, with this process's Python as ``python``. With ``output`` for its output it has low priority."""
    words = [sys.executable if word == "python" else word for word in shlex.split(command)]
    if output is None:
        return subprocess.Popen(words, preexec_fn=partial(_begin, 0))
    return subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT, preexec_fn=partial(_begin, NICER))


def _begin(nicer: int) -> None:
    os.nice(nicer)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
