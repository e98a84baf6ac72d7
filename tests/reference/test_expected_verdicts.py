"""Verdicts beside expectations: what is unexpected, what is stale, and what a file made anew has."""

from __future__ import annotations

import datetime

import pytest

from reference.conform.expected_verdicts import Compared, compare_expectations, updated
from reference.conform.judge import Expectation, Judged

TODAY = datetime.date(2026, 6, 1)
JUDGED = [Judged("rnn-001", "skipped", "no LSTM"), Judged("rnn-002", "equal"), Judged("pipeline-001", "differs", "x")]
KNOWN = ["rnn-001", "rnn-002", "rnn-101", "pipeline-001", "pipeline-002"]


def compared(*expected: Expectation) -> Compared:
    return compare_expectations(JUDGED, expected, KNOWN, TODAY)


def unexpected(*expected: Expectation) -> list[str]:
    return [*compared(*expected).unexpected]


def stale(*expected: Expectation) -> list[str]:
    return [*compared(*expected).stale]


def test_without_expectations_every_case_is_to_pass() -> None:
    assert unexpected() == ["rnn-001: skipped, expected to pass", "pipeline-001: differs, expected to pass"]


def test_what_is_expected_is_not_unexpected() -> None:
    found = unexpected(Expectation("rnn-001", "skipped", "later"), Expectation("pipe*", "differs", "bug"))
    assert found == []


def test_an_unexpected_pass_is_unexpected() -> None:
    assert "rnn-002: equal, expected skipped (later)" in unexpected(Expectation("rnn-*", "skipped", "later"))


def test_another_verdict_is_unexpected() -> None:
    assert "pipeline-001: differs, expected errored (bug)" in unexpected(Expectation("pipe*", "errored", "bug"))


def test_an_entry_that_matches_nothing_is_stale() -> None:
    assert stale(Expectation("reinforce*", "differs", "bug")) == ["reinforce*: no case matches"]


@pytest.mark.parametrize(("day", "is_stale"), [(31, True), (1, False)])
def test_an_entry_expires_after_its_day(day: int, is_stale: bool) -> None:
    expires = datetime.date(2026, 5 if day == 31 else 6, day)
    found = stale(Expectation("rnn-001", "skipped", "later", expires=expires))
    assert found == ([f"rnn-001: expired on {expires} (later)"] if is_stale else [])


def test_entries_that_contradict_each_other_are_stale() -> None:
    entries = Expectation("rnn-001", "skipped", "a"), Expectation("rnn-00*", "errored", "b")
    assert "rnn-001: several entries expect errored and skipped" in stale(*entries)


def test_an_entry_for_a_case_that_was_not_judged_is_not_stale() -> None:
    assert stale(Expectation("rnn-101", "differs", "slow"), Expectation("pipeline-002", "differs", "bug")) == []


def test_each_case_is_told_with_what_is_expected_of_it() -> None:
    found = compared(Expectation("rnn-*", "skipped", "later")).cases
    assert {name: (each.holds, str(each)) for name, each in found.items()} == {
        "rnn-001": (True, "expected skipped (later)"),
        "rnn-002": (False, "expected skipped (later)"),
        "pipeline-001": (False, "expected to pass"),
    }


def test_entries_made_anew_expect_what_was_judged_and_keep_reasons() -> None:
    expires = datetime.date(2027, 1, 2)
    kept = Expectation("rnn-*", "skipped", "later", "https://example.org/1", expires)
    found = updated(JUDGED, [kept], KNOWN[:2], TODAY)
    assert found == [
        Expectation("pipeline-001", "differs", "x"),
        Expectation("rnn-001", "skipped", kept.reason, kept.link, expires),
    ]
    assert compared(*found).holds


def test_entries_made_anew_keep_those_of_cases_that_were_not_judged() -> None:
    old = [Expectation("rnn-*", "errored", "no engine"), Expectation("pipeline-00*", "errored", "no pipeline")]
    found = {each.cases: (each.verdict, each.reason) for each in updated(JUDGED, old, KNOWN, TODAY)}
    assert found == {
        "rnn-001": ("skipped", "no LSTM"),
        "rnn-101": ("errored", "no engine"),
        "pipeline-001": ("differs", "x"),
        "pipeline-002": ("errored", "no pipeline"),
    }


def test_entries_made_anew_have_no_day_that_is_over() -> None:
    old = Expectation("rnn-001", "skipped", "later", "", datetime.date(2026, 5, 31))
    (_, found) = updated(JUDGED, [old], KNOWN, TODAY)
    assert found == Expectation("rnn-001", "skipped", "later")
