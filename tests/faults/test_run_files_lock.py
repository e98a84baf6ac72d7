"""A folder with a run: no other run takes its plan, its ledgers or its roles."""

from __future__ import annotations

import errno
import fcntl
import os
import re
from collections.abc import Callable
from contextvars import Context
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from faults.cli.main import main
from faults.ledger import Ledger
from faults.ledger.run_files import renewed, reserved
from faults.plan import Plan, PlanError
from faults.run.runs import Subject, prepared, run
from tests.support import roles_subjects as plays
from tests.support.roles_plain import name
from tests.support.targets import options, shrink_of, sweep_of

PLAN = Plan.parse("seed=3; Duplicate site=shop:pay")
BUSY = "a run is going on in .*: wanted a folder of its own for each run"


def files(place: Path) -> dict[str, bytes]:
    return {str(each): each.read_bytes() if each.is_file() else b"" for each in place.rglob("*")}


def elsewhere(work: Callable[..., Any], *arguments: Any) -> Any:
    """Do the work as another command would, for which the folders of this one are not its own."""
    return Context().run(work, *arguments)


def test_no_run_begins_where_one_goes_on(tmp_path: Path) -> None:
    with renewed(PLAN, tmp_path):
        before = files(tmp_path)
        with pytest.raises(PlanError, match=BUSY):
            prepared(Plan(), tmp_path)
        assert files(tmp_path) == before
    prepared(Plan(), tmp_path)


def test_no_run_begins_where_a_process_writes_a_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The processes of a program that finds its plan by FAULTS_RUN do so: no launcher waits for them. NFS, as here,
    locks a file alone only for whom it is open for writing."""
    flock = fcntl.flock

    def as_nfs_does(handle: int, how: int) -> None:
        if how & fcntl.LOCK_EX and not fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_RDWR:
            raise OSError(errno.EBADF, "Bad file descriptor")
        flock(handle, how)

    monkeypatch.setattr(fcntl, "flock", as_nfs_does)
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


@pytest.mark.usefixtures("forkserver")
def test_a_world_has_its_folder_until_it_is_judged(tmp_path: Path) -> None:
    asked: list[Path] = []

    def judged(outcomes: object) -> None:
        asked.append(tmp_path)
        with pytest.raises(PlanError, match=BUSY):
            prepared(PLAN, tmp_path)

    run(Subject(name="idle", roles={"a": name}, timeout=5, judge=judged), Plan(), tmp_path, recorded=True)
    assert asked


COMMANDS = {
    "run": ["run", "rpc_basics", "--healthy", "--dir", "DIR"],
    "run-script": ["run", "--healthy", "--dir", "DIR", "--script", "true"],
    "list": ["list", "rpc_basics", "--dir", "DIR"],
    "list-script": ["list", "--dir", "DIR", "--script", "true"],
    "sweep": ["sweep", "rpc_basics", "--dir", "DIR"],
    "sweep-script": ["sweep", "--dir", "DIR", "--script", "true"],
    "shrink": ["shrink", "rpc_basics", "--plan", "Crash role=caller at=up@caller", "--dir", "DIR"],
    "shrink-script": ["shrink", "--plan", "Crash role=caller at=up@caller", "--dir", "DIR", "--script", "true"],
    "prepare": ["prepare", "DIR", "--healthy"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_begins_in_a_sweeps_folder_or_below_it(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor above it, where another sweep would delete its runs. It changes nothing."""
    sweep = tmp_path / "above" / "sweep"
    with reserved(sweep), renewed(PLAN, sweep / "healthy"):
        before = files(tmp_path)
        for place in (sweep, sweep / "healthy", sweep / "new" / "run", sweep.parent):
            words = [str(place) if word == "DIR" else word for word in COMMANDS[command]]
            assert elsewhere(main, words) == 2
            assert re.fullmatch(f"error: {BUSY}\n", capsys.readouterr().err)
        assert files(tmp_path) == before


def test_runs_side_by_side_do_not_exclude_each_other(tmp_path: Path) -> None:
    with renewed(PLAN, tmp_path / "a"):
        elsewhere(prepared, Plan(), tmp_path / "b")
    assert {each.name for each in tmp_path.iterdir()} == {"a", "b"}


@pytest.mark.usefixtures("forkserver")
@pytest.mark.parametrize("command", ["sweep", "shrink"])
def test_a_command_of_many_runs_has_its_folder_until_the_last_run(command: str, tmp_path: Path) -> None:
    """Runs of tutorials are judged by their own command, in which another one asks for its folder here."""
    runs: list[set[str]] = []

    def judged(outcomes: object) -> tuple[str, str]:
        with pytest.raises(PlanError, match=BUSY):
            elsewhere(prepared, Plan(), tmp_path / "0000")
        runs.append({each.name for each in tmp_path.iterdir()})
        return "wrong" if "0000" in runs[-1] else "equal", ""

    subject = replace(plays.subject(plays.careful), judge=judged)
    asked = options(dir=str(tmp_path), kinds=["Delay reply"], sites=plays.TOTAL)
    if command == "sweep":
        assert sweep_of(subject, asked) == 1
    else:
        assert shrink_of(subject, Plan.parse(f"Delay site={plays.TOTAL} seconds=0.01 side=reply"), asked) == 1
    assert runs[:2] == [{"healthy"}, {"healthy", "0000"}]
    elsewhere(prepared, Plan(), tmp_path / "0000")
