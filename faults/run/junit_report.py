"""Tell the verdicts of one run, or of a sweep's runs, as JUnit's XML, which CI systems show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from xml.sax.saxutils import escape, quoteattr


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
