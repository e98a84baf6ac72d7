"""Read what `run_suite` left in its folder: ``run.json``, and of each run of a case ``ID/N/out`` and its output."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reference.conform.suite import Suite, SuiteCase
from reference.system.printable import OneLine, one_line
from reference.system.strict_json import once


class NoResults(OneLine, ValueError):
    """A folder holds no results of a run, or not those of this suite."""


@dataclass(frozen=True)
class Ran:
    """One run of one case. ``status`` as in `Ended`; ``outside``: what it must not have written, if anything."""

    status: int | None
    seconds: float
    outside: str = ""


def results(suite: Suite, out: Path) -> dict[str, list[Ran]]:
    """Read which cases ran, from the ``run.json`` that `run_suite` left.

    Raises:
        NoResults: there is none, it is of another suite, or a case's folder is missing.
    """
    if not (out / "run.json").exists():
        raise NoResults(f"{out}: no run.json, which `conform run` writes there when all its cases have ended")
    try:
        index: Any = json.loads((out / "run.json").read_text(encoding="utf-8"), object_pairs_hook=once)
        ran = {name: [Ran(**each) for each in runs] for name, runs in index["cases"].items()}
        version = index["suite"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise NoResults(one_line(f"{out}: no results of a run ({type(error).__name__}: {error})")) from error
    if version != suite.version:
        raise NoResults(f"{out}: results of suite {version}, wanted {suite.version}")
    if strangers := sorted(set(ran) - set(suite.cases)):
        raise NoResults(f"{out}: results of cases that the suite lacks: {', '.join(strangers)}")
    for name, runs in ran.items():
        for number in range(1, len(runs) + 1):
            if not folder_of(out, suite.cases[name], number).is_dir():
                raise NoResults(f"{out}: {name}/{number}/out is missing")
    return ran


def folder_of(out: Path, case: SuiteCase, number: int) -> Path:
    """The folder of one run's answer; ``number`` counts from 1."""
    return out / case.id / str(number) / "out"


def last_line(out: Path, case: SuiteCase, number: int) -> str:
    """The last line that the command wrote to stderr; empty if it wrote none."""
    path = out / case.id / str(number) / "stderr.txt"
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    return one_line(next((line for line in reversed(lines) if line.strip()), ""), 400)
