"""The first rank ends before another one has read the last count from its store: a race in torch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from faults.ledger import Event, Timeline
from faults.ledger.record import End, Run
from faults.plan import Plan
from faults.script.script import run_script
from faults.tracebacks.error_chain import Piece, to_json
from faults.verdict.checks import judge

SCRIPT = Path(__file__).parents[1] / "scripts" / "slow_store.py"
LOST = Piece(("DistNetworkError", "DistError", "RuntimeError", "Exception"), "Connection reset by peer")


@pytest.mark.long
def test_a_rank_that_reads_the_last_count_after_the_first_rank_has_ended_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TP_SOCKET_IFNAME", "lo")
    run, judgement = run_script([sys.executable, str(SCRIPT)], Plan(), tmp_path, deadline=150)
    assert (run.ends["ps"].kind, run.ends["trainer"].kind) == ("Returned", "Raised"), run.timeline
    assert "DistNetworkError" in run.ends["trainer"].text
    assert judgement.verdict == "unknown", judgement


def event(role: str, name: str, time: float, **details: Any) -> Event:
    return Event(role, name, time, details, process=ord(role))


def verdict(*events: Event, error: Piece = LOST) -> str:
    """Make a run of two roles, of which ``b`` has failed in a healthy run."""
    ups = [event(role, "up", 0.5, workers=["a", "b"]) for role in "ab"]
    raised = event("b", "raised", 4.0, error=str(error), causes=to_json([error]))
    ends = {
        "a": End("Returned", "returned", 103.0, process=ord("a")),
        "b": End("Raised", f"raised {error}", 104.0, causes=(error,), process=ord("b")),
        "+command": End("Exited", "exited with status 1", 105.0),
    }
    timeline = Timeline((*ups, *events, raised), {}, ("a", "b"), 100.0)
    return judge(Run("shop", Plan(), timeline, ends, bound=20.0, start=100.0)).verdict


def test_a_lost_store_is_torchs_only_once_another_role_has_left_gracefully() -> None:
    begun = [event(role, "shutdown", 1.0, graceful=True) for role in "ab"]
    first, own = event("a", "left", 2.0), event("b", "left", 3.0)
    assert verdict(*begun, first, own) == "unknown"
    assert verdict(*begun, first, own, error=Piece(("RuntimeError", "Exception"), LOST.text)) == "wrong"
    assert verdict(*begun, own) == "wrong"  # the other one has not left
    assert verdict(*begun, event("a", "left", 3.5), own) == "wrong"
    assert verdict(*begun, first) == "wrong"  # it has not begun its shutdown
    assert verdict(*begun, first, event("b", "left", 4.5)) == "wrong"
    rude = [event(role, "shutdown", 1.0, graceful=False) for role in "ab"]
    assert verdict(rude[0], begun[1], first, own) == "wrong"
    assert verdict(begun[0], rude[1], first, own) == "wrong"
