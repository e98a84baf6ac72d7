"""`merge`: the reports of a sweep's parts become that of the whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from faults.cli.main import main
from faults.cli.reports import FORMAT
from tests.support import roles_subjects as plays
from tests.support.targets import options, read_report, sweep_of

pytestmark = pytest.mark.usefixtures("own_folder")


def run(plan: str, passed: bool | None = True, **more: Any) -> dict[str, Any]:
    cell = {"site": "m:f", "kind": plan.split()[0], "occurrence": "first", "call": "a#1"}
    verdict = {True: "equal", False: "wrong", None: "unknown"}[passed]
    told = {"plan": plan, "cell": cell, "verdict": verdict, "passed": passed, "seconds": 1.0, "folder": None}
    return {**told, "checks": [], "notes": [], "ends": {}, "waits": {}, "waiting": [], "events": [], **more}


def part(name: str, number: int, count: int, *runs: dict[str, Any], **more: Any) -> str:
    passed = all(each["passed"] is not False for each in runs)
    report = {"format": FORMAT, "program": "my.py", "passed": passed, "runs": runs, "not_run": 0, "not_hurt": []}
    Path(name).write_text(json.dumps({**report, "part": [number, count], **more}))
    return name


def merged(*names: str) -> tuple[int, dict[str, Any]]:
    status = main(["merge", *names, "--json", "whole.json"])
    return status, read_report("whole.json")


def test_the_parts_of_a_sweep_are_the_whole() -> None:
    """Real sweeps: the whole one, and its three parts."""
    told = {}
    for name, which in {"all": (1, 1), "1": (1, 3), "2": (2, 3), "3": (3, 3)}.items():
        asked = options(sites=plays.PAY, kinds=["Delay", "Raise request"], part=which, json=f"{name}.json")
        assert sweep_of(plays.subject(plays.careful), asked) == 0
        told[name] = read_report(f"{name}.json")
    assert max(len(told[name]["runs"]) for name in "123") < len(told["all"]["runs"]) == 6
    status, found = merged("3.json", "1.json", "2.json")
    assert status == 0
    assert {run["plan"]: run["verdict"] for run in found["runs"]} == {
        run["plan"]: run["verdict"] for run in told["all"]["runs"]
    }
    assert found["not_hurt"] == told["all"]["not_hurt"]


def test_a_missing_part_makes_the_whole_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    status, found = merged(part("1", 1, 3, run("Drop")), part("3", 3, 3, run("Delay")))
    assert status == 3
    assert found["missing"] == ["2/3"]
    assert "missing parts, of which nothing is known: 2/3" in capsys.readouterr().out
    assert main(["merge", "1", "3", "--html", "page.html", "--junit", "j.xml"]) == 3
    assert "Nothing is known of the missing parts 2/3." in Path("page.html").read_text()
    assert 'errors="1"' in Path("j.xml").read_text()


@pytest.mark.parametrize(
    ("second", "not_run", "status"), [(False, 0, 1), (None, 0, 3), (True, 2, 3), (False, 2, 1), (True, 0, 0)]
)
def test_the_worst_part_gives_the_status(second: bool | None, not_run: int, status: int) -> None:
    names = part("1", 1, 2, run("Drop")), part("2", 2, 2, run("Delay", second), not_run=not_run)
    found, whole = merged(*names)
    assert found == status
    assert whole["passed"] is {0: True, 1: False, 3: None}[status]
    assert whole["not_run"] == not_run


def test_of_a_run_that_several_parts_have_made_the_worst_counts() -> None:
    """With `--pairs` each part runs all cells."""
    status, found = merged(part("1", 1, 2, run("Drop"), run("Delay", False)), part("2", 2, 2, run("Drop", None)))
    assert status == 1
    assert [(each["plan"], each["passed"]) for each in found["runs"]] == [("Drop", None), ("Delay", False)]


def test_a_page_and_junit_are_written(capsys: pytest.CaptureFixture[str]) -> None:
    pair = run("Drop reply; Delay reply", verdict="failed loudly")
    pair["pair"] = [pair.pop("cell")] * 2
    assert main(["merge", part("1", 1, 1, run("Drop reply"), pair), "--html", "page.html", "--junit", "j.xml"]) == 0
    assert ">equal</span> </tr>" in Path("page.html").read_text()
    assert ">failed loudly</span> Drop reply; Delay reply</li>" in Path("page.html").read_text()
    assert "<testcase" in Path("j.xml").read_text()
    assert not Path("page-runs").exists()


def test_a_file_that_is_given_twice_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["merge", part("a", 1, 1, run("Drop")), "a"]) == 2
    assert capsys.readouterr().err == "error: got a, a: wanted each file once\n"


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ({"number": 1, "count": 2}, "wanted each part of one sweep once, got a 1/2, b 1/2"),
        ({"number": 2, "count": 3}, "wanted each part of one sweep once, got a 1/2, b 2/3"),
        ({"number": 2, "count": 2, "program": "other.py"}, "b is of other.py: wanted one of my.py, as a"),
        ({"number": 2, "count": 2, "format": "x"}, "b is not the report of a sweep (--json): it has another format"),
        ({"number": 2, "count": 2, "missing": ["1/3"]}, "b lacks 1/3: wanted the reports that it was merged from"),
        ({"number": 2, "count": 2, "runs": [1]}, "a report holds what no sweep writes ("),
        ({"number": 2, "count": 2, "part": [1, 2, 3]}, "a report holds what no sweep writes (ValueError"),
    ],
)
def test_what_is_no_part_of_the_sweep_is_refused(
    others: dict[str, Any], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    part("a", 1, 2, run("Drop"))
    part("b", **{"number": 1, "count": 1, **others})
    assert main(["merge", "a", "b"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {said}")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": 1}'])
def test_what_is_no_report_is_refused(content: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("a").write_text(content)
    assert main(["merge", "a"]) == 2
    assert capsys.readouterr().err.startswith("error: a is not the report of a sweep (--json): ")
