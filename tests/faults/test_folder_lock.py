"""A folder with a run: no other run takes its plan, its ledgers or its roles."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from faults.ledger import Ledger
from faults.ledger.run_files import renewed
from faults.plan import Plan, PlanError
from faults.run.launch_scope import prepared
from faults.run.runs import run
from faults.run.subject import Subject
from faults.script.script import run_script
from tests.support.roles_plain import name

PLAN = Plan.parse("seed=3; Duplicate site=shop:pay")
BUSY = "a run is going on in .*: wanted a folder of its own for each run"
# A process of a script that asks for its own run's folder: status 3 if that is refused.
OTHER = """
import os
from pathlib import Path
from faults.ledger.folder_lock import occupied
from faults.plan.errors import PlanError
try:
    with occupied(Path(os.environ["FAULTS_RUN"])):
        pass
except PlanError:
    raise SystemExit(3)
"""


def files(place: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in place.iterdir() if each.is_file()}


def test_no_run_begins_where_one_goes_on(tmp_path: Path) -> None:
    with renewed(PLAN, tmp_path):
        before = files(tmp_path)
        with pytest.raises(PlanError, match=BUSY):
            prepared(Plan(), tmp_path)
        assert files(tmp_path) == before
    prepared(Plan(), tmp_path)


def test_no_run_begins_where_a_process_writes_a_ledger(tmp_path: Path) -> None:
    """The processes of a program that finds its plan by FAULTS_RUN do so: no launcher waits for them."""
    prepared(PLAN, tmp_path)
    ledger = Ledger(tmp_path, "till")
    before = files(tmp_path)
    with pytest.raises(PlanError, match=BUSY):
        prepared(Plan(), tmp_path)
    assert files(tmp_path) == before
    ledger.close()
    prepared(Plan(), tmp_path)


def test_a_child_that_outlives_a_run_does_not_hold_its_folder(tmp_path: Path) -> None:
    over, end = os.pipe()
    with renewed(PLAN, tmp_path):
        child = os.fork()
        if child == 0:
            os.close(end)
            os.read(over, 1)
            os._exit(0)
    try:
        prepared(Plan(), tmp_path)
    finally:
        os.close(end)
        os.close(over)
        os.waitpid(child, 0)


def test_a_script_has_its_folder_until_it_ends(tmp_path: Path) -> None:
    found, _ = run_script([sys.executable, "-c", OTHER], PLAN, tmp_path)
    assert (found.ends["+command"].text, found.plan) == ("exited with status 3", PLAN), found


@pytest.mark.usefixtures("forkserver")
def test_a_world_has_its_folder_until_it_is_judged(tmp_path: Path) -> None:
    asked: list[Path] = []

    def judged(outcomes: object) -> None:
        asked.append(tmp_path)
        with pytest.raises(PlanError, match=BUSY):
            prepared(PLAN, tmp_path)

    run(Subject(name="idle", roles={"a": name}, timeout=5, judge=judged), Plan(), tmp_path, recorded=True)
    assert asked
