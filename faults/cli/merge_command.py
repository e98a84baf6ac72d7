"""Run ``merge`` of ``python -m faults``: put the reports of a sweep's parts together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from faults.cli.options import parser_of
from faults.cli.reports import FORMAT, REPORTS, check_reports, tell_sweep
from faults.judge.rules import exit_status
from faults.run.sweep import all_passed
from reference.cli.options import BadInput
from reference.system.files import content_of
from reference.system.json_objects import json_object


def main(arguments: Sequence[str]) -> int:
    """Print the table of all parts, and return the exit status of the whole: 3 if a part is missing."""
    parser = parser_of("merge", "Put the reports of a sweep's parts together (sweep --part I/N --json FILE).", *REPORTS)
    parser.add_argument("files", nargs="+", metavar="FILE", help="the report of one part, as --json wrote it")
    options = parser.parse_args(arguments)
    check_reports(options)
    reports = {name: _read(name) for name in options.files}
    if len(reports) < len(options.files):
        raise BadInput(f"got {', '.join(options.files)}: wanted each file once")
    try:
        merged = merge(reports)
        tell_sweep(options, merged, {})
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise BadInput(f"a report holds what no sweep writes ({type(error).__name__}: {error})") from error
    return exit_status(merged["passed"])


def _read(name: str) -> dict[str, Any]:
    """Read a report. Raises BadInput: it is not that of a sweep."""
    try:
        report = json_object(content_of(Path(name)), "it")
        if report.get("format") != FORMAT or "part" not in report:
            raise ValueError("it has another format")
        return report
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(f"{name} is not the report of a sweep (--json): {error}") from error


def merge(reports: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the report of the whole. Of a run that several parts have made, which have all cells with ``--pairs``, the
    worst counts.

    Raises:
        BadInput: the reports are of other programs, or not of different parts of one sweep; or one lacks parts itself.
    """
    (first, whole), *others = reports.items()
    for name, report in others:
        if report["program"] != whole["program"]:
            raise BadInput(f"{name} is of {report['program']}: wanted one of {whole['program']}, as {first}")
    for name, report in reports.items():
        if report.get("missing"):
            raise BadInput(f"{name} lacks {', '.join(report['missing'])}: wanted the reports that it was merged from")
    parts = [tuple(report["part"]) for report in reports.values()]
    count = parts[0][1]
    if len({*parts}) != len(parts) or {each for _, each in parts} != {count}:
        told = ", ".join(f"{name} {number}/{of}" for name, (number, of) in zip(reports, parts, strict=True))
        raise BadInput(f"wanted each part of one sweep once, got {told}")
    runs: dict[str, Any] = {}
    for run in (run for report in reports.values() for run in report["runs"]):
        same = runs.setdefault(run["plan"], run)
        if all_passed([same["passed"], run["passed"]]) is not same["passed"]:
            runs[run["plan"]] = run
    missing = [f"{number}/{count}" for number in range(1, count + 1) if (number, count) not in parts]
    not_run = sum(report["not_run"] for report in reports.values())
    passed = all_passed([run["passed"] for run in runs.values()])
    return {
        **whole,
        "passed": None if passed and (not_run or missing) else passed,
        # A table's cell shows the first call before the last one, which may be in an earlier part.
        "runs": sorted(runs.values(), key=lambda run: run.get("cell", {}).get("occurrence") == "last"),
        "not_run": not_run,
        "part": [1, 1],
        "missing": missing,
    }
