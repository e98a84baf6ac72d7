"""Expected verdicts: what is unexpected, what is stale, and what a file of them must look like."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from reference.conform.expectations import (
    BadExpectations,
    Expectation,
    compare_expectations,
    read_expectations,
    updated,
)
from reference.conform.judge import Judged

TODAY = datetime.date(2026, 6, 1)
JUDGED = [Judged("rnn-001", "skipped", "no LSTM"), Judged("rnn-002", "equal"), Judged("pipeline-001", "differs", "x")]


def unexpected(*expected: Expectation) -> list[str]:
    return [*compare_expectations(JUDGED, expected, TODAY).unexpected]


def stale(*expected: Expectation) -> list[str]:
    return [*compare_expectations(JUDGED, expected, TODAY).stale]


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


def test_an_updated_file_expects_what_was_judged_and_keeps_reasons(tmp_path: Path) -> None:
    expires = datetime.date(2027, 1, 2)
    kept = Expectation("rnn-*", "skipped", 'later, "perhaps" \\ never', "https://example.org/1", expires)
    (tmp_path / "x").write_text(updated(JUDGED, [kept]))
    found = read_expectations(tmp_path / "x")
    assert found == [
        Expectation("rnn-001", "skipped", kept.reason, kept.link, expires),
        Expectation("pipeline-001", "differs", "x"),
    ]
    assert compare_expectations(JUDGED, found, TODAY).holds


GOOD = 'cases = "rnn-*"\nverdict = "skipped"\nreason = "later"\n'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[[expect]\n", "Expected"),
        ("x = 1\n", "wanted entries"),
        ("[expect]\nx = 1\n", "wanted entries"),
        ('[[expect]]\ncases = "a"\n', "wanted cases, verdict, reason"),
        (f"[[expect]]\n{GOOD}more = 1\n", "wanted cases, verdict, reason"),
        (f"[[expect]]\n{GOOD}link = 1\n", "link must be a str"),
        (f'[[expect]]\n{GOOD}expires = "2027-01-01"\n', "expires must be a date"),
        (f"[[expect]]\n{GOOD.replace('later', '')}", "reason must be a str"),
        (f"[[expect]]\n{GOOD.replace('skipped', 'equal')}", "verdict 'equal', wanted one of differs"),
    ],
)
def test_a_file_that_is_not_strict_is_refused_in_one_line(text: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_text(text)
    with pytest.raises(BadExpectations, match=why) as caught:
        read_expectations(tmp_path / "x")
    assert "\n" not in str(caught.value)
