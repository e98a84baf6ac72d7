"""Print what came of runs, and write it for machines: as JSON, and as JUnit's XML."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from rich.console import Console

from faults.cli.options import Option
from faults.cli.sweep_table import kinds_of, lines_of
from faults.judge.drawing import drawing, happened, shortened, told
from faults.judge.facts import Facts
from faults.judge.rules import Judgement
from faults.judge.waiting import told_waits
from faults.ledger import record
from faults.ledger.record import Run
from faults.run.sweep import Cell, Result, Swept, all_passed, plan_of
from faults.script.results import printed
from reference.cli.options import BadInput, check_writable
from reference.system import temporary_folders
from reference.system.files import whole
from reference.system.text import one_line, printable

REPORTS: tuple[Option, ...] = (
    ("--json", {"metavar": "FILE", "help": "write the verdicts to a file (docs/faults/report.schema.json)"}),
    ("--junit", {"metavar": "FILE", "help": "write the verdicts to a file, as JUnit's XML"}),
    ("--html", {"metavar": "FILE", "help": "write a page of what happened, which a browser shows without a network"}),
)
FORMAT = "torch-rpc-reference/faults/3"
# The attributes of JUnit's ``testsuite``, each the number of these elements.
_COUNTED = {"tests": "testcase", "failures": "failure", "errors": "error", "skipped": "skipped"}


def check_reports(options: Any) -> None:
    """Refuse, before anything runs, a file that could not be written. Raises BadInput.

    A file may lie in the run's own folder, which need not be there yet.
    """
    check_files((options.json, options.junit, options.html), getattr(options, "dir", None))


def check_files(paths: Iterable[str | None], of_run: str | None) -> None:
    """`check_reports` of these files. ``of_run``: the folder of the run, if it is kept."""
    given = [path for path in paths if path is not None]
    for path in given:
        if [*map(os.path.realpath, given)].count(os.path.realpath(path)) > 1:
            raise BadInput(f"got {path} for several reports: wanted a file for each")
    folder = None if of_run is None else Path(os.path.realpath(of_run))
    for path in given:
        file = Path(os.path.realpath(path))
        if file.parent == folder and file.name in (record.PLAN, record.RUN):
            raise BadInput(f"cannot write {path}: the run has a file of this name, wanted another one")
        if file.parent != folder or file.parent.exists():
            check_writable(path)


def write_run(options: Any, found: Run, judgement: Judgement, folder: str | os.PathLike[str]) -> None:
    """Write what is asked for. A folder that is removed when the command ends is not named."""
    kept = options.dir is not None or judgement.passed is not True
    _write(options, of_run(found, judgement, folder if kept else None))
    if options.html is not None:
        write_page(options.html, found, judgement, Path(folder))


def write_page(path: str | os.PathLike[str], found: Run, judgement: Judgement, folder: Path) -> None:
    """Write the page of a run."""
    from faults.report.page import page  # needs jinja2, which is slow to import

    with whole(path) as scratch:
        scratch.write_text(page(Facts(found), judgement, folder), encoding="utf-8")


def report_sweep(options: Any, name: str, swept: Swept) -> None:
    """Print the table of a sweep, and write what is asked for. Folders that are removed at the end are not named."""
    kept = options.dir is not None or not all(result.passed for result in swept.results)
    runs = {str(plan_of(each.cells)): (each.folder, each.judgement) for each in swept.results}
    tell_sweep(options, of_sweep(name, swept, part=options.part, kept=kept), runs)


def tell_sweep(options: Any, report: dict[str, Any], runs: Mapping[str, tuple[Path, Judgement]]) -> None:
    """Print the table of a report, and write what is asked for. ``runs``: those that have a page, by their plans."""
    try:
        for line in lines_of(report):
            print(line)
    finally:  # even if nobody can read it, such as in a terminal that was closed
        _write(options, report)
        if options.html is not None:
            from faults.report.sweep_page import write_sweep_page

            kinds = kinds_of([each for each in report["runs"] if "cell" in each])
            write_sweep_page(Path(options.html), report, kinds, runs)


def _write(options: Any, report: dict[str, Any]) -> None:
    for path, text in ((options.json, text_of), (options.junit, as_junit)):
        if path is not None:
            with whole(path) as scratch:
                scratch.write_text(text(report), encoding="utf-8")


def of_run(found: Run, judgement: Judgement, folder: str | os.PathLike[str] | None) -> dict[str, Any]:
    """Return the report of a single run. ``folder``: None if it is not kept."""
    run = {
        "plan": str(found.plan),
        **_judged(judgement),
        **told(Facts(found)),
        "folder": _name(folder),
    }
    return {"format": FORMAT, "program": one_line(found.name), "passed": judgement.passed, "runs": [run]}


def of_sweep(name: str, swept: Swept, *, part: tuple[int, int] | None = None, kept: bool = True) -> dict[str, Any]:
    """Return the report of a sweep. ``part``: which of how many it is; ``kept``: whether its folders are."""
    passed = all_passed([result.passed for result in swept.results])
    unhurt = [{"site": each.site, "kind": each.injection, "reason": one_line(each.reason)} for each in swept.unhurt]
    return {
        "format": FORMAT,
        "program": one_line(name),
        "passed": None if passed and swept.not_run else passed,
        "runs": [_of_cell(result, kept) for result in swept.results],
        "not_run": swept.not_run,
        "not_hurt": unhurt,
        "part": list(part or (1, 1)),
    }


def _of_cell(result: Result, kept: bool) -> dict[str, Any]:
    cells = [_place(cell) for cell in result.cells]
    return {
        "plan": str(plan_of(result.cells)),
        **({"cell": cells[0]} if len(cells) == 1 else {"pair": cells}),
        **_judged(result.judgement),
        "passed": result.passed,
        **result.told,
        "folder": _name(result.folder if kept else None),
    }


def _place(cell: Cell) -> dict[str, str]:
    return {"site": cell.site, "kind": cell.injection, "occurrence": cell.occurrence, "call": cell.caller}


def _judged(judgement: Judgement) -> dict[str, Any]:
    checks = [{"name": each.name, "holds": each.holds, "text": one_line(each.text)} for each in judgement.checks]
    notes = [one_line(each) for each in judgement.notes]
    return {"verdict": judgement.verdict, "passed": judgement.passed, "checks": checks, "notes": notes}


def _name(folder: str | os.PathLike[str] | None) -> str | None:
    return None if folder is None else one_line(os.fspath(folder))


def text_of(report: Mapping[str, Any]) -> str:
    return json.dumps(report, indent=1) + "\n"


def as_junit(report: Mapping[str, Any]) -> str:
    """Convert a report: a test case for each run. One that failed has a failure, an unknown one an error.

    One more case, which is skipped, stands for the cells of a sweep that were not run; an error for each missing part.
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
    for part in report.get("missing", ()):
        case = ElementTree.SubElement(suite, "testcase", classname=report["program"], name=f"part {part}")
        ElementTree.SubElement(case, "error", type="missing", message="nothing is known of this part")
    for counted, tag in _COUNTED.items():
        suite.set(counted, str(len(list(suite.iter(tag)))))
    ElementTree.indent(suite, "")
    return f"{ElementTree.tostring(suite, encoding='utf-8', xml_declaration=True).decode()}\n"


def report(found: Run, judgement: Judgement, folder: str | os.PathLike[str]) -> int:
    """Print a run's headline and checks, and return the exit status. One that did not pass has what happened, who waits
    for whom, and the end of what its program has printed."""
    print(headline(found))
    if judgement.passed is not True:
        facts = Facts(found)
        events = [f"{time:8.3f} s  {text}" for time, text, _ in shortened(happened(drawing(facts)), PRINTED)]
        places = [f"{name} waits at {place}" for name, place in found.waits.items()]
        for line in (*events, *told_waits(facts), *places, *_printed(Path(folder))):
            print(one_line(line, WIDTH))
    print(judgement)
    return judgement.status


# The most events of a run that are printed, and the longest line.
PRINTED, WIDTH = 8, 300


def _printed(folder: Path) -> Iterator[str]:
    for name, lines in printed(folder):
        yield f"the program's {name}:"
        yield from (f"  | {line}" for line in lines)


def headline(found: Run) -> str:
    """The first line of a verdict: what ran, for how long, and how many faults were planned."""
    taken = f" {found.seconds:.1f} s" if found.complete else ""
    head, number = f"{' '.join(found.name.split())}:{taken}", len(found.plan.faults)
    if number == 0:
        return one_line(f"{head} healthy: no faults planned")
    return one_line(f"{head} under {number} {'fault' if number == 1 else 'faults'}: {found.plan}")


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
