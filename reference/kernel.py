"""What the kernel says of a process (Linux)."""

from __future__ import annotations

from pathlib import Path


def state_of(pid: int) -> str:
    """Such as ``S (sleeping)``; ``unknown`` where the process is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(errors="replace")  # a process's name may be no text
    except OSError:
        return "unknown"
    return next((line.split(maxsplit=1)[1] for line in status.splitlines() if line.startswith("State:")), "unknown")


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped by a signal. Not by a debugger."""
    return state_of(pid).startswith("T ")
