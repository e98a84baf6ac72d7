"""Read from /proc what a process does with a signal (Linux)."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

# Those of a process; a thread has masks of its own for what it blocks, and for what only it has to handle.
IGNORED, HANDLED, PENDING = "SigIgn:", "SigCgt:", "ShdPnd:"
BLOCKED, OF_THREAD = "SigBlk:", "SigPnd:"


def has_signal(pid: int, mask: str, number: int) -> bool:
    """Whether this signal is in a mask of a process or a thread. False if that has ended."""
    with suppress(OSError):
        lines = map(str.split, Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines())
        return any(int(words[1], 16) >> (number - 1) & 1 for words in lines if words and words[0] == mask)
    return False
