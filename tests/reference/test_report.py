"""Reports of judgements: every format holds every verdict, and nothing that cannot be printed."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from reference.cli.main import main
from reference.conform.judge import Judged
from reference.conform.report import FORMATS, as_html, as_json, as_junit, as_text, badge

NASTY = "\x00\x1b[31m <b>&\"']]>\ud800"
JUDGED = [
    Judged("rnn-001", "skipped", "no LSTM", (), 1.5),
    Judged("rnn-002", "equal"),
    Judged("pipeline-001", "differs", NASTY, (NASTY, "second")),
]


def test_text_has_a_line_per_case_and_the_counts() -> None:
    assert as_text(JUDGED[:2]).splitlines() == [
        "rnn-001  skipped       no LSTM",
        "rnn-002  equal",
        "2 cases: 1 skipped, 1 equal",
    ]


def test_json_has_every_case_and_the_grades() -> None:
    found = json.loads(as_json(JUDGED))
    assert [(each["id"], each["verdict"]) for each in found["cases"]] == [(j.id, j.verdict) for j in JUDGED]
    assert found["requirements"]["EXACT"]["grade"] == "MUST"


def test_junit_counts_failures_and_skips() -> None:
    suite = ElementTree.fromstring(as_junit(JUDGED))
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    assert [len(case) for case in suite] == [1, 0, 1]
    failure = suite[2][0]
    assert (failure.tag, failure.get("type")) == ("failure", "differs")
    assert "second" in str(failure.text)


def test_html_is_a_page_without_references() -> None:
    text = as_html(JUDGED)
    assert "<b>" not in text
    assert "http" not in text
    assert text.count("<tr>") == 3


@pytest.mark.parametrize("name", FORMATS)
def test_what_cannot_be_printed_is_escaped_in_each_format(name: str) -> None:
    text = FORMATS[name](JUDGED)
    assert text.replace("\n", "").isprintable()
    text.encode()


def test_a_diff_names_changed_verdicts_and_cases_of_one_report_only(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    before.write_text(as_json([*JUDGED[:2], Judged("rnn-101", "equal")]))
    after.write_text(as_json([Judged("rnn-001", "differs", "no momentum"), *JUDGED[1:]]))
    assert main(["conform", "diff", str(before), str(after)]) == 1
    assert capfd.readouterr().out.splitlines() == [
        "pipeline-001: differs, only in the second report",
        "rnn-001: skipped -> differs: no momentum",
        "rnn-101: equal, only in the first report",
    ]
    assert main(["conform", "diff", str(before), str(before)]) == 0
    assert capfd.readouterr().out == "equal verdicts: 3 cases\n"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"cases": [{"id": "a"}]}', '{"cases": 1}', "\xff"])
def test_what_is_no_report_is_refused_in_one_line(text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "report.json").write_bytes(text.encode("latin-1"))
    assert main(["conform", "diff", str(tmp_path / "report.json"), str(tmp_path / "none")]) == 2
    error = capfd.readouterr().err
    assert "report.json: no report of `conform judge --format json`" in error
    assert error.count("\n") == 1


def test_a_badge_is_green_only_if_all_are_right() -> None:
    assert json.loads(badge(JUDGED))["message"] == "1 of 3 cases"
    assert [json.loads(badge(some))["color"] for some in (JUDGED, JUDGED[1:2])] == ["red", "brightgreen"]
