"""Reports of judgements: every format holds every verdict, and nothing that cannot be printed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from xml.etree import ElementTree

import pytest

from reference.conform.expected_verdicts import Expectation, compare_expectations
from reference.conform.judge import Judged
from reference.conform.report import FORMATS, Report, as_html, as_json, as_junit, as_text

NASTY = "\x00\x1b[31m <b>&\"']]>\ud800"
JUDGED = [
    Judged("rnn-001", "skipped", "no LSTM", (), 1.5),
    Judged("rnn-002", "equal"),
    Judged("pipeline-001", "differs", NASTY, (NASTY, "second")),
]


def report(judged: Sequence[Judged] = JUDGED, *expected: Expectation) -> Report:
    ids = [each.id for each in judged]
    compared = compare_expectations(judged, expected, ids)
    return Report("2026.11", judged, compared, dict.fromkeys(ids, ("TENSORS", "BOUND", "BITS")))


NO_LSTM, BUG = Expectation("rnn-*1", "skipped", "later"), Expectation("pipeline-*", "differs", "bug 7")
PASSES = Expectation("rnn-002", "differs", "bug 8")


def test_text_has_a_line_per_case_and_the_counts() -> None:
    assert as_text(report(JUDGED[:2], NO_LSTM)).splitlines() == [
        "rnn-001  skipped       no LSTM",
        "         as expected: later",
        "rnn-002  equal",
        "2 cases: 1 skipped, 1 equal",
    ]


def test_json_has_every_case_and_what_is_expected_of_it() -> None:
    found = json.loads(as_json(report(JUDGED, NO_LSTM, Expectation("x", "differs", "typo"))))
    assert [(each["id"], each["verdict"]) for each in found["cases"]] == [(j.id, j.verdict) for j in JUDGED]
    assert [(each["expected"], each["as_expected"]) for each in found["cases"]] == [
        ("skipped", True),
        ("pass", True),
        ("pass", False),
    ]
    assert found["suite"] == "2026.11"
    assert found["stale"] == ["x: no case matches"]
    assert found["cases"][2]["requirements"] == {"TENSORS": "met", "BOUND": "missed", "BITS": "missed"}


@pytest.mark.parametrize(
    ("verdict", "states"),
    [
        ("equal", ("met", "met", "met")),
        ("within bound", ("met", "met", "missed")),
        ("malformed", ("missed", "not judged", "not judged")),
        ("unknown", ("met", "not judged", "not judged")),
        ("timed out", ("not judged", "not judged", "not judged")),
    ],
)
def test_a_verdict_tells_which_requirements_are_met(verdict: str, states: tuple[str, ...]) -> None:
    found = report([Judged("rnn-001", verdict)])
    assert tuple(found.met(found.judged[0]).values()) == states


@pytest.mark.parametrize(
    ("expected", "tags"),
    [
        ((), ["failure", "", "failure"]),
        ((NO_LSTM, BUG), ["skipped", "", "skipped"]),
        ((NO_LSTM, BUG, PASSES), ["skipped", "failure", "skipped"]),
        ((NO_LSTM, BUG, Expectation("x", "differs", "typo")), ["skipped", "", "skipped", "failure"]),
    ],
)
def test_junits_failures_are_what_is_not_as_expected(expected: tuple[Expectation, ...], tags: list[str]) -> None:
    found = report(JUDGED, *expected)
    suite = ElementTree.fromstring(as_junit(found))
    assert [case[0].tag if len(case) else "" for case in suite] == tags
    assert suite.get("failures") == str(tags.count("failure"))
    assert suite.get("skipped") == str(tags.count("skipped"))
    assert found.compared.holds == ("failure" not in tags)


def test_a_failure_in_junit_has_its_verdict_and_all_details() -> None:
    failure = ElementTree.fromstring(as_junit(report()))[2][0]
    assert failure.get("type") == "differs"
    assert str(failure.get("message")).startswith("differs, expected to pass")
    assert "second" in str(failure.text)


def test_html_is_a_page_without_references() -> None:
    text = as_html({"<y>": report(JUDGED, Expectation("<x>", "differs", "typo"))})
    assert "<b>" not in text
    assert "<x>" not in text
    assert "<y>" not in text
    assert "://" not in text
    assert text.count("<tr>") == 4


def test_html_shows_implementations_side_by_side() -> None:
    """Of a case that one of them has not, its cell is empty."""
    text = as_html({"jax": report(JUDGED), "rust": report(JUDGED[:1])})
    rows = text.split("<tr>")[2:]
    assert [row.count("<td>") for row in rows] == [2] * 3
    assert [row.count("<summary") for row in rows] == [2, 1, 1]


@pytest.mark.parametrize("name", FORMATS)
def test_what_cannot_be_printed_is_escaped_in_each_format(name: str) -> None:
    text = FORMATS[name](report())
    assert text.replace("\n", "").isprintable()
    text.encode()
