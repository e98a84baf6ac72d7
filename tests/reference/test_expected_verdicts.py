"""Files of expected verdicts: what they must look like, what is unexpected or stale, and what one made anew has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reference.conform.expected_verdicts import (
    Compared,
    Expectation,
    as_toml,
    compare_expectations,
    read_expectations,
    updated,
)
from reference.conform.judge import Judged
from reference.system.text import BadInput

JUDGED = [Judged("rnn-001", "skipped", "no LSTM"), Judged("rnn-002", "equal"), Judged("pipeline-001", "differs", "x")]
KNOWN = ["rnn-001", "rnn-002", "rnn-101", "pipeline-001", "pipeline-002"]


def compared(*expected: Expectation) -> Compared:
    return compare_expectations(JUDGED, expected, KNOWN)


LATER, BUG = Expectation("rnn-*", "skipped", "later"), Expectation("pipe*", "differs", "bug", "https://example.org")
ONE = replace(LATER, cases="rnn-001")


@pytest.mark.parametrize(
    ("expected", "unexpected"),
    [
        ([], ["rnn-001: skipped, expected to pass", "pipeline-001: differs, expected to pass"]),
        ([ONE, BUG], []),
        ([LATER, BUG], ["rnn-002: equal, expected skipped (later)"]),
        ([ONE, replace(BUG, verdict="errored")], ["pipeline-001: differs, expected errored (bug)"]),
    ],
    ids=["nothing expected", "as expected", "passes", "another verdict"],
)
def test_what_is_not_as_expected_is_unexpected(expected: list[Expectation], unexpected: list[str]) -> None:
    assert list(compared(*expected).unexpected) == unexpected


def test_entries_that_match_nothing_or_contradict_each_other_are_stale() -> None:
    entries = Expectation("rnn-001", "skipped", "a"), Expectation("rnn-00*", "errored", "b")
    assert list(compared(Expectation("reinforce*", "differs", "bug")).stale) == ["reinforce*: no case matches"]
    assert "rnn-001: several entries expect errored and skipped" in compared(*entries).stale


def test_an_entry_for_a_case_that_was_not_judged_is_not_stale() -> None:
    entries = Expectation("rnn-101", "differs", "slow"), Expectation("pipeline-002", "differs", "bug")
    assert list(compared(*entries).stale) == []


def test_each_case_is_told_with_what_is_expected_of_it() -> None:
    found = compared(LATER).cases
    assert {name: (each.holds, str(each)) for name, each in found.items()} == {
        "rnn-001": (True, "expected skipped (later)"),
        "rnn-002": (False, "expected skipped (later)"),
        "pipeline-001": (False, "expected to pass"),
    }


def test_entries_made_anew_expect_what_was_judged_and_keep_reasons() -> None:
    kept = replace(LATER, link="https://example.org/1")
    found = updated(JUDGED, [kept], KNOWN[:2])
    assert found == [Expectation("pipeline-001", "differs", "x"), replace(kept, cases="rnn-001")]
    assert compared(*found).holds


def test_an_entry_made_anew_has_a_reason_even_if_the_verdict_has_none() -> None:
    assert updated([Judged("rnn-001", "errored")], [], KNOWN) == [Expectation("rnn-001", "errored", "errored")]
    (strange,) = updated([Judged("rnn-001", "malformed", 'a\nb: "dtype"')], [], KNOWN)  # a tensor's name may be any
    assert strange.reason.isprintable()


def test_entries_made_anew_keep_those_of_cases_that_were_not_judged() -> None:
    old = [Expectation("rnn-*", "errored", "no engine"), Expectation("pipeline-00*", "errored", "no pipeline")]
    found = {each.cases: (each.verdict, each.reason) for each in updated(JUDGED, old, KNOWN)}
    assert found == {
        "rnn-001": ("skipped", "no LSTM"),
        "rnn-101": ("errored", "no engine"),
        "pipeline-001": ("differs", "x"),
        "pipeline-002": ("errored", "no pipeline"),
    }


def test_an_entry_stays_whole_while_all_its_cases_have_its_verdict() -> None:
    """Also of cases that were not judged, such as rnn-101; the cases of another entry are told one by one."""
    judged = [Judged("rnn-001", "skipped", "x"), Judged("rnn-002", "skipped", "y"), Judged("pipeline-002", "equal")]
    assert updated(judged, [BUG, LATER], KNOWN) == [LATER, replace(BUG, cases="pipeline-001")]


@pytest.mark.parametrize(
    ("reasons", "cases"),
    [
        ({"rnn-001": "a", "rnn-002": "a", "rnn-101": "a"}, ["rnn-*"]),
        ({"rnn-001": "a", "rnn-002": "a"}, ["rnn-0*"]),
        ({"rnn-001": "a", "rnn-002": "b", "rnn-101": "a"}, ["rnn-001", "rnn-002", "rnn-101"]),
        ({"rnn-001": "a", "pipeline-001": "a"}, ["pipeline-001", "rnn-001"]),
    ],
)
def test_new_entries_are_one_where_all_cases_have_one_reason(reasons: dict[str, str], cases: list[str]) -> None:
    judged = [Judged(name, "skipped", reason) for name, reason in reasons.items()]
    found = updated(judged, [], KNOWN)
    assert [each.cases for each in found] == cases
    assert compare_expectations(judged, found, KNOWN).holds


GOOD = 'cases = "rnn-*"\nverdict = "skipped"\nreason = "later"\n'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[[expect]\n", "Expected"),
        ("x = 1\n", "wanted entries"),
        ("[expect]\nx = 1\n", "wanted entries"),
        ('[[expect]]\ncases = "a"\n', "wanted cases, verdict, reason"),
        (f"[[expect]]\n{GOOD}more = 1\n", "x, entry 1: wanted cases, verdict, reason"),
        (f"[[expect]]\n{GOOD}link = 1\n", "link must be a text"),
        (f"[[expect]]\n{GOOD}expires = 2027-01-01\n", r"wanted cases, .* link, got \['cases', 'expires', 'reason'"),
        (f"[[expect]]\n{GOOD.replace('later', '')}", "reason must be a text"),
        (f"[[expect]]\n{GOOD.replace('skipped', 'equal')}", "verdict 'equal', wanted one of differs"),
    ],
)
def test_a_file_that_is_not_strict_is_refused_in_one_line(text: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_text(text)
    with pytest.raises(BadInput, match=why) as caught:
        read_expectations(tmp_path / "x")
    assert "\n" not in str(caught.value)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    entries = [replace(BUG, reason='later, "perhaps" \\ never\n\x7f\x01é😀'), Expectation("a", "differs", "x")]
    (tmp_path / "x").write_text(as_toml(entries))
    assert read_expectations(tmp_path / "x") == entries
