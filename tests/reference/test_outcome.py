"""Outcomes as one line of text."""

from __future__ import annotations

import pickle

import pytest

from reference.outcome import Exited, Killed, Outcome, Raised, RoleFailed, chain_of

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


@pytest.mark.parametrize("outcome", [Killed(6), Exited(3)], ids=str)
def test_a_failure_shows_the_end_of_the_log_of_a_role_that_nothing_else_explains(outcome: Outcome) -> None:
    lines = [f"line {number}" for number in range(100)]
    failed = RoleFailed("ps", outcome, "\n".join([*lines, ""]))
    assert str(failed).splitlines() == [f"ps {outcome}", *lines[-50:]]
    assert str(RoleFailed("ps", outcome, "x" * 10_000)) == f"ps {outcome}\n{'x' * 5000}"
    told = RoleFailed("ps", Raised("ValueError", "bad"), "said")
    assert str(told) == "ps raised ValueError: bad"
    assert told.log == "said"


def test_a_failure_survives_pickling() -> None:
    failed = RoleFailed("ps", Killed(9), "said")
    again = pickle.loads(pickle.dumps(failed))
    assert (str(again), again.role, again.outcome, again.log) == (str(failed), "ps", Killed(9), "said")


def test_a_signal_without_a_name_is_told_by_its_number() -> None:
    assert str(Killed(99)) == "was killed by signal 99"


def test_a_chain_has_each_cause_and_each_error_during_which_one_was_raised_once() -> None:
    last, cause, context, root = (ValueError(each) for each in ("last", "cause", "context", "root"))
    last.__cause__, last.__context__ = cause, context
    cause.__cause__ = context.__cause__ = root
    root.__cause__ = root
    first, *others = chain_of(last)
    assert first is last
    assert len(others) == 3
    assert set(others) == {cause, context, root}
