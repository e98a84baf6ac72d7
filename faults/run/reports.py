"""Write what came of runs for machines: as JSON, and as JUnit's XML."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from faults.judge.facts import how_all_ended
from faults.judge.rules import Judgement
from faults.ledger.record import Run
from faults.run.sweep import Cell, Result, Swept, all_passed
from reference.system.text import one_line

FORMAT = "torch-rpc-reference/faults/2"


def of_run(found: Run, judgement: Judgement, folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the report of a single run."""
    run = {
        "plan": str(found.plan),
        **_judged(judgement),
        **_facts(found.seconds, folder, how_all_ended(found), found.waits),
    }
    return {"format": FORMAT, "program": one_line(found.name), "passed": judgement.passed, "runs": [run]}


def of_sweep(name: str, swept: Swept) -> dict[str, Any]:
    """Return the report of a sweep."""
    passed = all_passed([result.passed for result in swept.results])
    unhurt = [{"site": each.site, "kind": each.injection, "reason": one_line(each.reason)} for each in swept.unhurt]
    return {
        "format": FORMAT,
        "program": one_line(name),
        "passed": None if passed and swept.interrupted else passed,
        "runs": [_of_cell(result) for result in swept.results],
        "not_run": swept.not_run,
        "not_hurt": unhurt,
    }


def text_of(report: Mapping[str, Any]) -> str:
    return json.dumps(report, indent=1) + "\n"


def _of_cell(result: Result) -> dict[str, Any]:
    cells = [_place(cell) for cell in result.cell.cells]
    return {
        "plan": str(result.cell.plan),
        **({"cell": cells[0]} if len(cells) == 1 else {"pair": cells}),
        **_judged(result.judgement),
        "passed": result.passed,
        **_facts(result.seconds, result.folder, result.ends, result.waits),
    }


def _place(cell: Cell) -> dict[str, str]:
    return {"site": cell.site, "kind": cell.injection, "occurrence": cell.occurrence, "call": cell.caller}


def _judged(judgement: Judgement) -> dict[str, Any]:
    checks = [{"name": each.name, "holds": each.holds, "text": one_line(each.text)} for each in judgement.checks]
    notes = [one_line(each) for each in judgement.notes]
    return {"verdict": judgement.verdict, "passed": judgement.passed, "checks": checks, "notes": notes}


def _facts(
    seconds: float, folder: str | os.PathLike[str], ends: Mapping[str, str], waits: Mapping[str, str]
) -> dict[str, Any]:
    return {
        "seconds": round(seconds, 3),
        "folder": one_line(os.fspath(folder)),
        "ends": {one_line(role): one_line(text) for role, text in ends.items()},
        "waits": {one_line(name): one_line(place) for name, place in waits.items()},
    }


def as_junit(report: Mapping[str, Any]) -> str:
    """Convert a report: a test case for each run. One that failed has a failure, an unknown one an error.

    One more case, which is skipped, stands for the cells of a sweep that were not run.
    """
    cases = [_case(report["program"], run) for run in report["runs"]]
    cases += [_skipped(report["program"], report["not_run"])] if report.get("not_run") else []
    failed, unknown, skipped = (sum(f"<{kind} " in case for case in cases) for kind in ("failure", "error", "skipped"))
    counts = f'tests="{len(cases)}" failures="{failed}" errors="{unknown}" skipped="{skipped}"'
    head = f'<testsuite name="faults" {counts}>'
    return "\n".join(['<?xml version="1.0" encoding="utf-8"?>', head, *cases, "</testsuite>"]) + "\n"


def _skipped(program: str, count: int) -> str:
    head = f'<testcase classname={quoteattr(program)} name="cells that were not run">'
    return f'{head}<skipped message="{count} were not run"/></testcase>'


def _case(program: str, run: Mapping[str, Any]) -> str:
    name = run["plan"] or "healthy"
    head = f'<testcase classname={quoteattr(program)} name={quoteattr(name)} time="{run["seconds"]:.3f}">'
    if run["passed"] is True:
        return f"{head}</testcase>"
    kind = "error" if run["passed"] is None else "failure"
    lines = [f"{each['name']}: {each['text']}" for each in run["checks"] if each["holds"] is not True]
    lines += [f"{role} {text}" for role, text in run["ends"].items()] + [f"stored in {run['folder']}"]
    body = escape("\n".join(lines))
    return f"{head}<{kind} type={quoteattr(run['verdict'])} message={quoteattr(lines[0])}>{body}</{kind}></testcase>"
