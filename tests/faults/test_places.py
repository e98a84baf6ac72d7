"""Texts that are no moments. Those that are come back as parts of plans, in test_plan.py."""

from __future__ import annotations

import pytest

from faults.plan.places import Moment, PlanError


@pytest.mark.parametrize(
    "text",
    [
        *("", "@", "up", "up@", "@ps", "up@p s", "up@ps ", "up@ps\n", "Up@ps", "up:1@ps", "shutdown#1@ps", "down@ps"),
        *("step@ps", "step:@ps", "step:-1@ps", "step:1.0@ps", "step:٣@ps", "step:1@", f"step:{'1' * 5000}@ps"),
        *("call:f#1@ps", "call:m:f@ps", "call:m:f#@ps", "call:m:f#1", "call:m:f#1@ps#2", "call:a-b:c#1@ps"),
        *("step:1@ps@ps", "up@" + "x" * 128),
    ],
)
def test_other_texts_are_no_moments(text: str) -> None:
    with pytest.raises(PlanError, match=r"^'at' must be 'up@ROLE', .* got '[^\n]*$"):
        Moment.parse(text)


@pytest.mark.parametrize("text", ["step:0@ps", "step:00@ps", "call:m:f#0@ps", "step:1000000001@ps"])
def test_counting_begins_at_1(text: str) -> None:
    with pytest.raises(PlanError, match=rf"^'at' counts from 1 to 1000000000, got '{text}'$"):
        Moment.parse(text)
