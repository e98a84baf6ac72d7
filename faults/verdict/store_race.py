"""Decide whether a role's shutdown may have failed by a race in torch, not by the plan: the first rank ended before it.

All ranks count themselves in a store, which the first rank's process holds until it ends. The first rank may end as
soon as all are counted. A rank that has not read the last count by then, as happens on a busy machine, loses the store:
`DistNetworkError`.
"""

from __future__ import annotations

from collections.abc import Sequence

from faults.ledger.ledger import Event
from faults.ledger.record import Run
from faults.tracebacks.error_chain import Piece


def may_have_lost_the_store(run: Run, causes: Sequence[Piece], time: float, role: str, process: int) -> bool:
    """Whether the error at ``time`` may come from a lost store, after this role and another shut down gracefully."""
    if not any("DistNetworkError" in piece.bases for piece in causes):
        return False
    left = [event for event in run.timeline.of("left") if event.time <= time and _is_graceful(run, event)]
    own = [event for event in left if event.may_be_of(role, process)]
    return bool(own) and any(event.role != role and event.time < own[-1].time for event in left)


def _is_graceful(run: Run, left: Event) -> bool:
    begun = [event for event in run.timeline.of("shutdown") if event.may_be_of(left.role, left.process)]
    return bool(begun) and bool(begun[-1].details.get("graceful", True))
