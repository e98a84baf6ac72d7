"""Outcomes as one line of text."""

from __future__ import annotations

import pytest

from reference.outcome import Exited, Killed, Overdue, Raised, Returned, RoleFailed

THERE = "On WorkerInfo(id=2, name=worker2):"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("", "raised ValueError: "),
        ("bad\nsecond line", "raised ValueError: bad"),
        (f"{THERE}\nValueError('far')\nTraceback", f"raised ValueError: {THERE} ValueError('far')"),
        (f"RuntimeError: {THERE}\n\n  late\nx", f"raised ValueError: RuntimeError: {THERE} late"),
        (THERE, f"raised ValueError: {THERE}"),
    ],
)
def test_an_error_says_its_cause_even_if_it_came_over_rpc(message: str, said: str) -> None:
    assert str(Raised("ValueError", message, "not said")) == said
    assert str(RoleFailed("ps", Raised("ValueError", message))) == f"ps {said}"


def test_every_other_outcome_says_how_the_role_ended() -> None:
    ends = [Returned(7), Killed(9), Killed(99), Exited(3), Overdue("stacks")]
    assert [str(end) for end in ends] == [
        "returned",
        "was killed by SIGKILL",
        "was killed by signal 99",
        "exited with status 3",
        "was overdue",
    ]
