"""Commands of ``python -m faults`` on a test's own subject, in place of a tutorial."""

from __future__ import annotations

from argparse import Namespace

from faults.cli.shrink_command import shrink_target
from faults.cli.sweep_command import sweep_target
from faults.cli.tutorial_target import TutorialTarget
from faults.plan import Plan
from faults.run.runs import Subject


def sweep_of(subject: Subject, options: Namespace) -> int:
    return sweep_target(TutorialTarget.of(subject, options), options)


def shrink_of(subject: Subject, plan: Plan, options: Namespace) -> int:
    return shrink_target(TutorialTarget.of(subject, options), plan, options)
