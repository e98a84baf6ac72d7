"""Read the state of a process from the kernel (Linux)."""

from __future__ import annotations

from pathlib import Path


def state_of(pid: int) -> str:
    """Such as ``S (sleeping)``; ``unknown`` where the process is gone."""
    return _told(pid, "State") or "unknown"


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped by a signal. Not by a debugger."""
    return state_of(pid).startswith("T ")


def is_traced(pid: int) -> bool:
    """Whether a debugger has this process, stopped or not."""
    return _told(pid, "TracerPid") not in ("", "0")


def _told(pid: int, name: str) -> str:
    """What the kernel says of a process under this name; nothing where the process is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(errors="replace")  # a process's name may be no text
    except OSError:
        return ""
    return next((line.split(maxsplit=1)[1] for line in status.splitlines() if line.startswith(f"{name}:")), "")
