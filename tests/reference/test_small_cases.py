"""The small cases: every tutorial has one, and it is fast and right."""

from __future__ import annotations

from typing import Any

import pytest

from reference import TUTORIALS, load
from reference.trace import CaseError
from reference.verify import judge
from reference.verify.verify import QUICK, quick
from tests.support.runs import run


@pytest.mark.parametrize("name", TUTORIALS)
def test_it_runs_equal_to_its_twin(name: str) -> None:
    """The launcher hears of each step, the last one included."""
    case, reported = quick(name), set[tuple[int, int]]()

    def report(_: str, record: dict[str, Any]) -> None:
        reported.add((record["step"], record["steps"]))

    trace = run(case, on_progress=report)
    assert trace.case == case
    total = len(trace.losses())
    assert reported == {(step, total) for step in range(1, total + 1)}
    difference, verdict = judge(trace, load(name).train_locally)
    assert verdict in ("equal", "within bound"), difference


def test_fields_may_differ() -> None:
    assert quick("reinforce", observers=3, steps=5) == load("reinforce").Case(observers=3, steps=5, n_steps=20)
    assert quick("rnn", timeout=2.0).timeout == 2.0
    with pytest.raises(CaseError, match="steps must be at least 1"):
        quick("rnn", steps=0)


def test_only_tutorials_are_named() -> None:
    assert set(QUICK) <= set(TUTORIALS)
