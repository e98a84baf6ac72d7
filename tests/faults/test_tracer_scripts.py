"""Programs of a user's own that leak RRefs, each named with its holder by ``--leaks trace``."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from faults.cli.main import main
from faults.ledger.record import is_traced
from faults.ledger.run_files import renewed
from faults.plan import Plan
from faults.run.runs import run
from faults.run.tutorial import of_tutorial
from reference.verify import quick
from tests.support.script_runs import SCRIPTS

pytestmark = pytest.mark.usefixtures("plain_over_tcp", "own_folder")


def line(script: str, text: str) -> str:
    """Return file and number of the only line of a script with this text."""
    lines = (SCRIPTS / script).read_text().splitlines()
    (number,) = [n for n, each in enumerate(lines, 1) if text in each]
    return re.escape(f"{script}:{number}")


LEAKS = {
    "hoard.py": (
        rf"2 RRefs \(\d+, \d+\) of ps: forks held by trainer1 since {line('hoard.py', 'rref = rpc.remote')} in step, "
        r"where trainer1 made them; the global made of __main__ holds them, "
        r"and trainer1 has got another there since it last used them"
    ),
    "late.py": (
        rf"2 RRefs \(\d+, \d+\) of ps: forks held by trainer2 since {line('late.py', 'def keep')} in keep "
        rf"\(an argument\), made by trainer1 at {line('late.py', 'rpc.rpc_async')} in play; the global kept of "
        r"__main__ holds them, and trainer2 has got another there since it last used them"
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("script", LEAKS)
def test_a_leak_of_a_script_is_named_with_its_holder_and_lines(
    script: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(SCRIPTS / script, tmp_path)
    status = main(["run", "--healthy", "--leaks", "trace", "--dir", "kept", "--script", script])
    out = capfd.readouterr().out
    (left,) = re.findall(r"^FAIL     left: (.*)$", out, re.MULTILINE)
    assert re.fullmatch(LEAKS[script], left)
    assert status == 1
    assert out.splitlines()[-1] == "verdict: leaked"
    assert main(["check", "kept"]) == 1
    assert f"left: {left}" in capfd.readouterr().out


@pytest.mark.parametrize("trace", [False, True])
def test_every_role_of_a_tutorial_is_traced_if_that_was_asked_for(trace: bool, tmp_path: Path) -> None:
    subject = of_tutorial(quick("rref_dataflow", timeout=10))
    found, judgement = run(subject, Plan(), tmp_path / "run", recorded=True, trace=trace)
    assert judgement.verdict == "equal", str(judgement)
    assert {event.role for event in found.timeline.of("traced")} == (set(subject.roles) if trace else set())
    assert "left" in [check.name for check in judgement.checks if check.holds]


def test_a_new_run_in_the_folder_is_traced_only_if_it_asks_for_that(tmp_path: Path) -> None:
    for trace in (True, False, True):
        with renewed(Plan(), tmp_path, trace=trace) as place:
            assert is_traced(place) == trace
