"""Tell the verdicts of one run, or of a sweep's runs, as JSON. `docs/faults/report.schema.json` describes it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from faults.judge.facts import how_all_ended
from faults.judge.rules import Judgement
from faults.ledger.record import Run
from faults.run.cells import Cell
from faults.run.sweep import Result, all_passed
from faults.run.swept import Swept
from reference.system.printable import one_line

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
    report = {
        "format": FORMAT,
        "program": one_line(name),
        "passed": None if passed and swept.interrupted else passed,
        "runs": [_of_cell(result) for result in swept.results],
        "not_run": swept.not_run,
        "not_hurt": unhurt,
    }
    if swept.left_out is None:
        return report
    return {**report, "not_combined": [{"pairs": count, "reason": why} for why, count in swept.left_out.items()]}


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
