"""Cells that run side by side: the same verdicts as one after the other, and nothing left when a run is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from multiprocessing import util
from pathlib import Path
from typing import Any

import pytest

from faults.cli.main import main
from faults.judge.rules import Judgement
from faults.ledger import Timeline
from faults.ledger.record import Run
from faults.plan import Fault, Plan
from faults.run.side_by_side import side_by_side
from faults.run.sweep import Cell, Cells, SweepFailed
from reference.system import interrupts
from reference.world import launch
from tests.support import roles_subjects as plays
from tests.support.roles_plain import name
from tests.support.suite_runs import ROOT
from tests.support.targets import options, read_report, sweep_of

pytestmark = pytest.mark.usefixtures("own_folder")


@pytest.fixture(scope="module", autouse=True)
def _healthy_run() -> None:
    """Start the shared forkserver as a sweep's healthy run does, because later tests of this process need what it has
    imported."""
    with launch({"a": name}) as world:
        world.wait()


def cells(count: int) -> list[Cells]:
    return [
        (Cell("m:f", "Duplicate", "first", Fault(kind="Duplicate", site="m:f", nth=n)),) for n in range(1, count + 1)
    ]


def alone(plan: Plan, place: Path) -> tuple[Run, Judgement]:
    """Waits until another run has begun, which only happens if they go on side by side."""
    place.mkdir()
    due = time.monotonic() + 20
    while len(list(place.parent.iterdir())) < 2:
        assert time.monotonic() < due, "no other run has begun"
        time.sleep(0.01)
    return quick(plan, place)


def quick(plan: Plan, place: Path) -> tuple[Run, Judgement]:
    return Run(str(os.getpid()), plan, Timeline((), {}, ()), complete=False), Judgement((), "equal")


def refused(plan: Plan, place: Path) -> tuple[Run, Judgement]:
    raise OSError(f"no room for {place.name}")


class NoRoom(Exception):
    """It takes two arguments, so a pipe cannot give it back."""

    def __init__(self, place: str, why: str) -> None:
        super().__init__(f"{place}: {why}")


def unusable(plan: Plan, place: Path) -> tuple[Run, Judgement]:
    raise NoRoom(place.name, "no room")


def dies(plan: Plan, place: Path) -> tuple[Run, Judgement]:
    os._exit(7)


def sleeps(plan: Plan, place: Path) -> tuple[Run, Judgement]:
    """Says that it runs, and cleans up when it is interrupted, even at once."""
    try:
        place.mkdir()
        threading.Event().wait(60)
    finally:
        (place / "cleaned").touch()
    return quick(plan, place)


def cleans_for_long(plan: Plan, place: Path) -> tuple[Run, Judgement]:
    try:
        return sleeps(plan, place)
    finally:
        threading.Event().wait(1)
        (place / "left").touch()


def launches(plan: Plan, place: Path) -> tuple[Run, Judgement]:
    with launch({"a": name}) as world:
        world.wait()
    return quick(plan, place)


def run_all(run: Any, count: int, jobs: int, due: float | None = None) -> list[str]:
    started: list[int] = []
    found = side_by_side(run, cells(count), Path(), jobs=jobs, due=due, done=0, on_start=started.append)
    with closing(found) as results:
        folders = [result.folder.name for result in results]
    assert started == list(range(len(folders)))
    return sorted(folders)


def test_runs_go_on_at_once() -> None:
    assert run_all(alone, 2, 2) == ["0000", "0001"]


def test_more_runs_than_workers_are_all_made() -> None:
    assert run_all(quick, 7, 2) == [f"{number:04d}" for number in range(7)]


def test_after_its_time_no_run_begins() -> None:
    """The first one does."""
    assert run_all(quick, 5, 2, due=0.0) == ["0000"]


@pytest.mark.parametrize(
    ("run", "error", "text"),
    [
        (refused, OSError, "no room for 0000"),
        (unusable, SweepFailed, "0000: no room"),
        (dies, SweepFailed, "a worker of the sweep ended with status 7"),
    ],
)
def test_an_error_of_a_run_or_its_text_is_raised(run: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=rf"^{text}$"):
        run_all(run, 2, 1)


def sweeps_and_tidies() -> None:
    run_all(launches, 2, 2)
    place = Path(util.get_temp_dir())
    tidy = f"from reference.system import temporary_folders; temporary_folders.tidy({str(place.parent)!r})"
    subprocess.run([sys.executable, "-c", tidy], check=True, timeout=60)
    assert place.is_dir(), place


def test_the_folder_of_the_processes_sockets_stays_when_a_worker_has_ended() -> None:
    """Although each worker's own processes have theirs there, too, and another program looks for what is left.

    In a process that has launched no world, as one whose healthy run is stored: the first world claims the folder.
    """
    program = f"from {__name__} import sweeps_and_tidies; sweeps_and_tidies()"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60, env={**os.environ, "PYTHONPATH": str(ROOT)})


def test_a_temporary_folder_with_a_name_that_no_socket_can_have_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(util, "get_temp_dir", lambda: "/" + "x" * 100)
    with pytest.raises(OSError, match=r"^TMPDIR is 12 bytes too long for the name of a socket: /x+$"):
        run_all(quick, 2, 2)


def test_runs_that_go_on_are_interrupted_and_clean_up() -> None:
    results = side_by_side(sleeps, cells(2), Path(), jobs=2, due=None, done=0, on_start=lambda number: None)

    def interrupt() -> None:
        due = time.monotonic() + 30
        while len(list(Path().glob("00*"))) < 2 and time.monotonic() < due:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt), closing(results):
        next(results)
    thread.join()
    assert sorted(map(str, Path().glob("*/cleaned"))) == ["0000/cleaned", "0001/cleaned"]


@pytest.mark.long
def test_verdicts_are_those_of_runs_one_after_the_other() -> None:
    found = {}
    for jobs in (1, 4):
        asked = options(
            sites=plays.PAY, kinds=["Delay", "Drop reply"], jobs=jobs, json=f"{jobs}.json", dir=f"runs{jobs}"
        )
        sweep_of(plays.subject(plays.careful), asked)
        runs = read_report(f"{jobs}.json")["runs"]
        found[jobs] = [(run["plan"], run["verdict"], run["folder"].rpartition("/")[2]) for run in runs]
    assert found[1] == found[4]
    assert len(found[1]) == 6


@pytest.mark.long
@pytest.mark.usefixtures("plain_over_tcp")
def test_a_program_is_swept_side_by_side() -> None:
    asked = ["--jobs", "2", "--same-output", "--kinds", "Drop", "--dir", "runs", "--json", "report.json"]
    assert main(["sweep", *asked, "--script", str(ROOT / "examples/retries/naive.py")]) == 1
    verdicts = [run["verdict"] for run in read_report("report.json")["runs"]]
    assert verdicts == ["equal", "equal", "wrong", "wrong"]


@pytest.mark.long
def test_a_sweep_that_is_ended_leaves_no_process() -> None:
    """By a signal to the command alone, as a scheduler sends it."""
    command = [sys.executable, "-m", "faults", "sweep", "rpc_basics", "--jobs", "2", "--dir", "runs"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        due = time.monotonic() + 120
        while not list(Path("runs").glob("0*/*.jsonl")) and process.poll() is None and time.monotonic() < due:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.splitlines()[-1] == "interrupted"


def sweep_of_two(run: Any) -> None:
    interrupts.listen()
    try:
        list(side_by_side(run, cells(2), Path(), jobs=2, due=None, done=0, on_start=lambda number: None))
    finally:
        Path("seen").write_text(" ".join(sorted(map(str, Path().glob("*/left")))))


@contextmanager
def swept(program: str, **how: Any) -> Iterator[subprocess.Popen[str]]:
    """Start a program that makes two runs at once, and yield its process when both have begun."""
    command = [sys.executable, "-c", f"import {__name__} as here; {program}"]
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=variables, **how) as process:
        due = time.monotonic() + 60
        while len(list(Path().glob("00*"))) < 2 and process.poll() is None and time.monotonic() < due:
            time.sleep(0.01)
        yield process


def test_runs_of_a_sweep_that_is_killed_are_interrupted() -> None:
    with swept("here.sweep_of_two(here.sleeps)") as process:
        process.kill()
        _, said = process.communicate(timeout=20)  # until all have ended that can write there; a run takes 60 s
    assert sorted(map(str, Path().glob("*/cleaned"))) == ["0000/cleaned", "0001/cleaned"]
    assert said == ""


def test_a_sweep_whose_process_group_is_ended_waits_for_its_runs() -> None:
    """The signal of a time limit or of a closed terminal ends the shared forkserver, too, which a healthy run has
    started."""
    with swept(
        "here.launches(here.Plan(), here.Path()); here.sweep_of_two(here.cleans_for_long)", start_new_session=True
    ) as process:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)
    assert Path("seen").read_text() == "0000/left 0001/left"
