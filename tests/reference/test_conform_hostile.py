"""Programs that answer with what is no answer get their verdict from the judge, and a reason that says why."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from reference.conform.judge import judge_suite
from reference.conform.run_suite import Settings, run_suite
from reference.conform.suite import Suite
from tests.support.hostile_programs import HOSTILE, Hostile

# The case that they get, and how long one may run (seconds).
CASE, SECONDS = "dist_autograd-001", 15.0


def _marks(hostile: Hostile) -> list[pytest.MarkDecorator]:
    return [pytest.mark.long] * (hostile.name == "a hang")  # its limit has to pass


@pytest.mark.parametrize("hostile", [pytest.param(each, marks=_marks(each), id=each.name) for each in HOSTILE])
def test_each_hostile_program_gets_its_verdict(hostile: Hostile, suite: Suite, tmp_path: Path) -> None:
    settings = Settings((sys.executable, *hostile.command), seconds=SECONDS)
    run_suite(suite, [suite.cases[CASE]], tmp_path / "out", settings, lambda _: None)
    (found,) = judge_suite(suite, tmp_path / "out")
    assert found.verdict == hostile.verdict
    assert hostile.told in "\n".join((found.text, *found.details))
