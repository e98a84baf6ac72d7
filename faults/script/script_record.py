"""Record how a script ended: its command, and its roles as the ledgers tell it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from faults.ledger import record
from faults.ledger.ledger import Timeline
from faults.ledger.record import End
from faults.plan.plan import Plan
from faults.verdict.failures import COMMAND
from faults.verdict.script_outcomes import Known, fates, of_lives
from faults.verdict.time_bounds import bound_of_timeout, first_effect, limit, timeout_of
from reference.outcome import Exited, Killed


def record_script(
    place: Path,
    name: str,
    plan: Plan,
    timeline: Timeline,
    command: End,
    known: Known,
    *,
    seconds: float,
    leaks: Sequence[str],
    bound: float | None = None,
    waits: Mapping[str, str] | None = None,
    judged: tuple[str, str] | None = None,
) -> None:
    """Write ``run.json``. ``known``: what is known of the processes besides their ledgers.

    ``bound``: in seconds, by default computed from the program's own timeouts; ``judged``: what came of the check of
    its results.
    """
    timeout = timeout_of(timeline, first_effect(plan, timeline))
    trace, difference = judged or (None, "")
    record.write(
        place,
        name=name,
        ends={**fates(timeline, known), COMMAND: command},
        lives=of_lives(timeline, known),
        waits=waits or {},
        bound=bound_of_timeout(timeout) if bound is None else bound,
        limit=limit(timeout) if bound is None else "",
        seconds=seconds,
        trace=trace,
        difference=difference,
        leaks=leaks,
        start=timeline.zero,
        recorded=True,
    )


def end_of(status: int, time: float, process: int = 0) -> End:
    """Return the end of a command with this status, negative for a signal."""
    if status == 0:
        return End("Returned", "returned", time, process=process)
    outcome = Exited(status) if status > 0 else Killed(-status)
    return End(type(outcome).__name__, str(outcome), time, process=process)
