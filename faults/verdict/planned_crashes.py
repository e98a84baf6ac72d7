"""Tell from the ledgers which processes the crashes of a plan have ended, when, and how."""

from __future__ import annotations

from faults.ledger.ledger import Event, Timeline

# A file's time, which tells when a process was asked to end, is that of the kernel's last tick.
_TICK_SECONDS = 0.01


def planned(timeline: Timeline) -> set[int]:
    """Return the processes that the plan killed."""
    return {_hit(event) for event in _crashes(timeline)}


def ways_of_crashes(timeline: Timeline) -> dict[int, str]:
    """Return how the plan ended each process that it did not kill by SIGKILL."""
    crashes = [event for event in _crashes(timeline) if isinstance(event.details.get("how"), str)]
    return {_hit(event): event.details["how"] for event in crashes}


def came_first(timeline: Timeline, pid: int, asked: float) -> bool:
    """Whether the plan ended a process before its program asked it to end, at ``asked`` (monotonic seconds).

    A launcher also asks a process that the plan has killed, until the kernel has ended all its threads. The plan's own
    SIGTERM looks like a request of the program's.
    """
    asked += _TICK_SECONDS - timeline.zero
    crashes = [event for event in _crashes(timeline) if _hit(event) == pid]
    return any(event.details.get("how") == "term" or event.time < asked for event in crashes)


def _crashes(timeline: Timeline) -> list[Event]:
    return [event for event in timeline.of("fired") if event.details.get("kind") == "Crash"]


def _hit(crash: Event) -> int:
    """Return the process that a crash ends: its own, unless the event names another."""
    return int(crash.details.get("pid", crash.process))
