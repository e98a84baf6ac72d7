"""Commands of ``python -m faults`` on a test's own subject, in place of a tutorial, and the reports that they write."""

from __future__ import annotations

import io
import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import jsonschema

from faults.cli.shrink_command import shrink_target
from faults.cli.sweep_command import sweep_target
from faults.cli.tutorial_target import TutorialTarget
from faults.plan import Plan
from faults.run.runs import Subject
from tests.support.suite_runs import ROOT

SCHEMA = json.loads((ROOT / "docs/faults/report.schema.json").read_text())


class Closed(io.StringIO):
    """A terminal that was closed: nothing can be printed."""

    def write(self, text: str) -> int:
        raise OSError("closed")


def options(**given: Any) -> Namespace:
    """Return the options of a command: these, and the others as the command line leaves them."""
    names = ["dir", "sites", "kinds", "budget", "part", "json", "junit", "html"]
    return Namespace(**{**dict.fromkeys(names), "pairs": False, "jobs": 1, **given})


def read_report(path: str | Path) -> Any:
    """Return what a command has written for `--json`, which has to be as the manual's schema says."""
    report = json.loads(Path(path).read_text())
    jsonschema.validate(report, SCHEMA)
    return report


def sweep_of(subject: Subject, options: Namespace) -> int:
    return sweep_target(TutorialTarget(subject, options), options)


def shrink_of(subject: Subject, plan: Plan, options: Namespace) -> int:
    return shrink_target(TutorialTarget(subject, options), plan, options)
