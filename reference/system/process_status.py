"""Read the state of a process from the kernel (Linux)."""

from __future__ import annotations

from pathlib import Path


def state_of(pid: int) -> str:
    """The process's state, such as ``S (sleeping)``; ``unknown`` if the process is gone."""
    return _told(pid, "State") or "unknown"


def is_stopped(pid: int) -> bool:
    """Whether a signal, and not a debugger, has stopped the process."""
    return state_of(pid).startswith("T ")


def is_traced(pid: int) -> bool:
    """Whether a debugger is attached to the process."""
    return _told(pid, "TracerPid") not in ("", "0")


def _told(pid: int, name: str) -> str:
    """The value of one line of the process's status file; empty if the process is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(errors="replace")  # a process's name may be any bytes
    except OSError:
        return ""
    return next((line.split(maxsplit=1)[1] for line in status.splitlines() if line.startswith(f"{name}:")), "")
