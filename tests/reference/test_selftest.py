"""The kit's self-test: hostile programs get their verdicts, and the command fails if one implementation does not.

The broken implementations of the self-test are those of test_explain.py, and the healthy ones those of test_conform.py.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reference.cli.main import main
from reference.conform.selftest import selftest
from reference.conform.selftest.hostile import HOSTILE, Hostile
from reference.conform.selftest.selftest import MISTAKES
from reference.conform.suite import Suite, chosen


def _marks(hostile: Hostile) -> list[pytest.MarkDecorator]:
    return [pytest.mark.long] * (hostile.name == "a hang")  # its limit has to pass


@pytest.mark.parametrize("hostile", [pytest.param(each, marks=_marks(each), id=each.name) for each in HOSTILE])
def test_each_hostile_program_gets_its_verdict(hostile: Hostile, suite: Suite, tmp_path: Path) -> None:
    tested = selftest.run(suite, hostile, tmp_path / "out")
    assert tested.holds, tested


def test_the_command_fails_unless_verdict_and_explanation_are_the_expected_ones(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    entries = chosen("core", "dist_autograd-001")
    monkeypatch.setattr(selftest, "chosen", lambda suite: entries)
    (broken,) = [each for each in MISTAKES if each.name == "shifted, exact"]
    monkeypatch.setattr(selftest, "MISTAKES", (broken,))
    monkeypatch.setattr(selftest, "HOSTILE", HOSTILE[:1])
    assert main(["conform", "selftest"]) == 0
    assert capfd.readouterr().out == "3 implementations judged, 0 not as expected\n"
    for other in (replace(broken, verdict="equal"), replace(broken, told="without momentum")):
        monkeypatch.setattr(selftest, "MISTAKES", (other,))
        assert main(["conform", "selftest"]) == 3
        _, *details, last = capfd.readouterr().out.splitlines()
        assert last == "3 implementations judged, 1 not as expected"
        assert details[-1] == "    Unexplained: none of the known mistakes gives these numbers."
