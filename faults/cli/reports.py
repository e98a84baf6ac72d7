"""Print what came of runs, and write it for machines: as JSON, and as JUnit's XML."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from rich.console import Console

from faults.cli.options import Option
from faults.judge.facts import how_all_ended
from faults.judge.rules import Judgement
from faults.ledger import record
from faults.ledger.record import Run
from faults.run.sweep import Cell, Result, Swept, all_passed, plan_of
from reference.cli.options import BadInput, check_writable
from reference.system import temporary_folders
from reference.system.files import whole
from reference.system.text import one_line, printable

REPORTS: tuple[Option, ...] = (
    ("--json", {"metavar": "FILE", "help": "write the verdicts to a file (docs/faults/report.schema.json)"}),
    ("--junit", {"metavar": "FILE", "help": "write the verdicts to a file, as JUnit's XML"}),
)
FORMAT = "torch-rpc-reference/faults/2"
# The attributes of JUnit's ``testsuite``, each the number of these elements.
_COUNTED = {"tests": "testcase", "failures": "failure", "errors": "error", "skipped": "skipped"}


def check_reports(options: Any) -> None:
    """Refuse, before anything runs, a file that could not be written. Raises BadInput."""
    for path in (options.json, options.junit):
        if path is not None:
            check_writable(path)


def write_run(options: Any, found: Run, judgement: Judgement, folder: str | os.PathLike[str]) -> None:
    _write(options, of_run(found, judgement, folder))


def write_sweep(options: Any, name: str, swept: Swept) -> None:
    _write(options, of_sweep(name, swept))


def _write(options: Any, report: dict[str, Any]) -> None:
    for path, text in ((options.json, text_of), (options.junit, as_junit)):
        if path is not None:
            with whole(path) as scratch:
                scratch.write_text(text(report), encoding="utf-8")


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


def _of_cell(result: Result) -> dict[str, Any]:
    cells = [_place(cell) for cell in result.cells]
    return {
        "plan": str(plan_of(result.cells)),
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


def text_of(report: Mapping[str, Any]) -> str:
    return json.dumps(report, indent=1) + "\n"


def as_junit(report: Mapping[str, Any]) -> str:
    """Convert a report: a test case for each run. One that failed has a failure, an unknown one an error.

    One more case, which is skipped, stands for the cells of a sweep that were not run.
    """
    suite = ElementTree.Element("testsuite", name="faults")
    for run in report["runs"]:
        about = {"classname": report["program"], "name": run["plan"] or "healthy", "time": f"{run['seconds']:.3f}"}
        case = ElementTree.SubElement(suite, "testcase", about)
        if run["passed"] is not True:
            lines = [f"{each['name']}: {each['text']}" for each in run["checks"] if each["holds"] is not True]
            lines += [f"{role} {text}" for role, text in run["ends"].items()] + [f"stored in {run['folder']}"]
            kind = "error" if run["passed"] is None else "failure"
            ElementTree.SubElement(case, kind, type=run["verdict"], message=lines[0]).text = "\n".join(lines)
    if report.get("not_run"):
        case = ElementTree.SubElement(suite, "testcase", classname=report["program"], name="cells that were not run")
        ElementTree.SubElement(case, "skipped", message=f"{report['not_run']} were not run")
    for counted, tag in _COUNTED.items():
        suite.set(counted, str(len(list(suite.iter(tag)))))
    ElementTree.indent(suite, "")
    return f"{ElementTree.tostring(suite, encoding='utf-8', xml_declaration=True).decode()}\n"


def report(found: Run, judgement: Judgement) -> int:
    """Print a run's headline, timeline and checks, and return the exit status. A run that passed has no timeline."""
    print(headline(found))
    if judgement.passed is not True:
        print(_timeline(found))
        for name, place in found.waits.items():
            print(one_line(f"{name} waits at {place}"))
    print(judgement)
    return judgement.status


def headline(found: Run) -> str:
    """The first line of a verdict: what ran, for how long, and how many faults were planned."""
    taken = f" {found.seconds:.1f} s" if found.complete else ""
    head, number = f"{' '.join(found.name.split())}:{taken}", len(found.plan.faults)
    if number == 0:
        return one_line(f"{head} healthy: no faults planned")
    return one_line(f"{head} under {number} {'fault' if number == 1 else 'faults'}: {found.plan}")


def _timeline(found: Run) -> str:
    events = list(map(str, found.timeline.events))
    last = events[-40:]
    head = f"the last {len(last)} of {len(events)} events:" if events else "no events"
    return "\n".join([head, *last])


def console() -> Console:
    return Console(width=None if sys.stdout.isatty() else 160)


@contextmanager
def stored(given: str | None) -> Iterator[tuple[Path, list[bool | None]]]:
    """Yield the folder for runs, and a list to which the caller appends whether each run passed.

    Without ``given`` the folder is temporary. It is kept, and its name printed, if a run has not passed, or if the
    command fails after it has recorded a run.
    """
    place = Path(given) if given is not None else temporary_folders.make("faults-")
    passed: list[bool | None] = []
    try:
        yield place, passed
    except Exception as error:
        if not isinstance(error, BadInput) and any(place.rglob(record.RUN)):
            passed.append(None)
        raise
    finally:
        if given is None and all(passed):
            temporary_folders.remove(place)
        elif given is None:
            temporary_folders.keep(place)
            print(f"stored in {printable(str(place))}", file=sys.stderr)
