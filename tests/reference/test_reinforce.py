"""The agent of seed 000: failing roles, and a run that misses its goal."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import reference.reinforce
from reference.outcome import Raised
from reference.reinforce import Case
from reference.verify.verify import long_cases, played
from tests.support.runs import launch_and_wait

SMALL = Case(steps=3, timeout=20.0)


def break_the_policy(role: str) -> None:
    """A ``before``: the policy's parameters are NaN."""
    initial = reference.reinforce.initial_policy

    def broken(case: Case) -> Any:
        policy = initial(case)
        policy.affine1.bias.data.fill_(float("nan"))
        return policy

    reference.reinforce.initial_policy = broken


def test_a_failing_policy_ends_the_run_at_once() -> None:
    outcome = launch_and_wait(replace(SMALL, observers=3, timeout=300), deadline=40, before=break_the_policy)["agent"]
    assert isinstance(outcome, Raised)
    assert outcome.type == "reference.rpc.waiting.ParticipantFailed"
    assert outcome.message.startswith("observer")
    assert "no action can be chosen with probabilities [nan, nan]" in outcome.message


def test_a_long_run_that_misses_its_goal_does_not_hold() -> None:
    """It fails even if the twin is equal. `verify --long` has one such row."""
    row = played(replace(SMALL, steps=2), goal=True)()
    assert row.verdict == "missed"
    assert re.fullmatch(
        r"bits equal in 32 tensors; running reward at most [\d.]+ in 2 episodes, wanted 237.5", row.difference
    )
    assert [*long_cases(["reinforce", "rpc_basics"])] == [Case(observers=2, steps=200, record="ends")]
