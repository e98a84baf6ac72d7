"""The reports of `--json` and `--junit`, and the schema of the first."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from faults.cli.reports import as_junit, check_reports, of_run, of_sweep, report_sweep, text_of
from faults.judge.rules import Check, Judgement
from faults.ledger import Timeline
from faults.ledger.record import End, Run
from faults.plan import Fault, Plan
from faults.run.sweep import Cell, Result, Swept, Unhurt
from reference.cli.options import BadInput
from tests.support.targets import SCHEMA, Closed, options, read_report

FAULT = Fault(kind="Drop", site="m:f", role="a", side="reply", nth=2)
CELL = Cell("m:f", "Drop reply", "last", FAULT)
WRONG = Judgement(
    (Check("trace", "wrong", False, "<1> & \x1b2"), Check("ends", "hung", True, "fine")), "wrong", ("a \x1b1",)
)
FINE = Judgement((Check("ends", "hung", True, "fine"),), "equal")
UNKNOWN = Judgement((Check("record", "unknown", None, "torn"),), "unknown")


def result(judgement: Judgement) -> Result:
    told = {"seconds": 1.235, "ends": {"a": "returned"}, "waits": {"a (process 1)": "my.py:1"}}
    return Result((CELL,), judgement, Path("runs/0000"), {**told, "waiting": ["a waits for b"], "events": []})


def sweep(*judgements: Judgement, wanted: int = 3) -> dict[str, Any]:
    unhurt = [Unhurt("m:g", "Order", "a alone calls it")]
    return of_sweep("my.py", Swept(list(map(result, judgements)), wanted, unhurt=unhurt))


def test_a_run_is_told_whole() -> None:
    run = Run("my.py x", Plan((FAULT,)), Timeline((), {}, ()), {"a": End("Returned", "returned", 1.0)}, seconds=2.0)
    report = of_run(run, WRONG, "run")
    jsonschema.validate(json.loads(text_of(report)), SCHEMA)
    assert report["program"] == "my.py x"
    assert report["passed"] is False
    assert report["runs"] == [
        {
            "plan": "Drop site=m:f role=a nth=2 side=reply",
            "verdict": "wrong",
            "passed": False,
            "checks": [
                {"name": "trace", "holds": False, "text": r"<1> & \x1b2"},
                {"name": "ends", "holds": True, "text": "fine"},
            ],
            "notes": [r"a \x1b1"],
            "seconds": 2.0,
            "folder": "run",
            "ends": {"a": "returned"},
            "waits": {},
            "waiting": [],
            "events": [{"time": 1.0, "text": "a returned"}],
        }
    ]


@pytest.mark.parametrize(
    ("judgements", "passed", "counts"),
    [
        ((FINE, FINE), None, ["3", "0", "0", "1"]),
        ((FINE, FINE, FINE), True, ["3", "0", "0", "0"]),
        ((FINE, UNKNOWN, FINE), None, ["3", "0", "1", "0"]),
        ((UNKNOWN, WRONG, FINE), False, ["3", "1", "1", "0"]),
        ((), None, ["1", "0", "0", "1"]),
    ],
)
def test_a_sweep_is_told_cell_by_cell(
    judgements: tuple[Judgement, ...], passed: bool | None, counts: list[str]
) -> None:
    """Cells that were not run are one more test case, which is skipped."""
    report, left = sweep(*judgements), 3 - len(judgements)
    jsonschema.validate(json.loads(text_of(report)), SCHEMA)
    assert report["passed"] is passed
    assert report["not_run"] == left
    assert report["not_hurt"] == [{"site": "m:g", "kind": "Order", "reason": "a alone calls it"}]
    suite = ElementTree.fromstring(as_junit(report).encode())
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == counts
    assert len([each for each in suite.iter("testcase") if each.get("name")]) == int(counts[0])
    assert [each.get("message") for each in suite.iter("skipped")] == [f"{left} were not run"] * bool(left)


@pytest.mark.usefixtures("own_folder")
@pytest.mark.parametrize(
    ("judgement", "place", "named"), [(FINE, None, None), (UNKNOWN, None, "runs/0000"), (FINE, "runs", "runs/0000")]
)
def test_a_folder_that_is_removed_is_not_named(judgement: Judgement, place: str | None, named: str | None) -> None:
    report_sweep(options(dir=place, json="sweep.json"), "my.py", Swept([result(judgement)], 1))
    assert read_report("sweep.json")["runs"][0]["folder"] == named


@pytest.mark.usefixtures("own_folder")
def test_a_sweep_is_reported_even_if_nobody_can_read_its_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", Closed())
    with pytest.raises(OSError, match=r"^closed$"):
        report_sweep(options(json="a.json", html="a.html"), "my.py", Swept())
    assert read_report("a.json")["runs"] == []
    assert Path("a.html").exists()


def test_junit_says_why_a_run_failed() -> None:
    [case] = ElementTree.fromstring(as_junit(sweep(WRONG, wanted=1)).encode())
    assert case.get("classname") == "my.py"
    assert case.get("name") == str(FAULT)
    assert case.get("time") == "1.235"
    [failure] = case
    assert failure.tag == "failure"
    assert failure.get("type") == "wrong"
    assert failure.get("message") == r"trace: <1> & \x1b2"
    assert failure.text == "trace: <1> & \\x1b2\na returned\nstored in runs/0000"


@pytest.mark.usefixtures("own_folder")
def test_a_report_may_lie_in_the_runs_folder_that_is_made_later() -> None:
    check_reports(options(dir="run", html="run/page.html", json="run/report.json", junit="run.json"))
    assert not Path("run").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"json": "b", "junit": "a", "html": "./a"}, "got a for several reports: wanted a file for each"),
        ({"html": "run/plan.json"}, "cannot write run/plan.json: the run has a file of this name, wanted another one"),
        ({"json": "./run/run.json"}, "cannot write ./run/run.json: the run has a file of this name, wanted another"),
        ({"json": "other/a.json"}, "cannot write other/a.json: No such file or directory"),
    ],
)
@pytest.mark.usefixtures("own_folder")
def test_a_report_that_would_be_written_over_or_nowhere_is_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(BadInput, match=f"^{re.escape(said)}"):
        check_reports(options(dir="run", **given))
