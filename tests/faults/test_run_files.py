"""A run's folder: a new run removes only files that it replaces, and a run that cannot start removes none."""

from __future__ import annotations

import itertools
import os
import re
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from faults.cli.main import main
from faults.inject.network.controller import NAME as NETWORK
from faults.inject.network.network import NetworkError
from faults.ledger import Ledger, record
from faults.ledger.record import End
from faults.ledger.run_files import EARLIER, MARK, MOVING, PAGE, RESULTS, remove_numbered, renewed
from faults.plan import Plan, PlanError
from faults.run.runs import prepared, scope
from faults.script.script import run_script
from reference.outcome import WorldError
from reference.world import launch

PLAN = Plan.parse("seed=3; Duplicate site=shop:pay")
OWN = '{"mine": "a plan of another kind"}'
WANTED = "which no run has written: wanted an empty folder, or one of a run"


def stored(place: Path) -> dict[str, bytes]:
    """Make the files of a run that has ended, as a launcher leaves them."""
    prepared(PLAN, place)
    Ledger(place, "till").close()
    (place / "till.log").write_text("paid 10\n")
    (place / "till.stacks").touch()
    (place / "rendezvous").write_bytes(b"1")
    (place / "+.7.status").write_bytes(b"\1")
    (place / RESULTS).mkdir()
    (place / RESULTS / "0-model").write_text("weights")
    record.write(place, name="shop", ends={"till": End("Returned", "returned", 9.0)})
    (place / PAGE).write_text("equal")
    return files(place)


def files(place: Path) -> dict[str, bytes]:
    """Return what is in a folder and below; a run's folders are a part of the run."""
    found = sorted(place.rglob("*"))
    return {str(each.relative_to(place)): each.read_bytes() for each in found if each.is_file()}


def test_a_new_run_replaces_what_the_earlier_one_has_written(tmp_path: Path) -> None:
    stored(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    with renewed(Plan(), tmp_path) as place:
        assert {each.name for each in place.iterdir()} == {"notes.txt", "plan.json", MARK, EARLIER}
        Ledger(place, "shop").close()
    assert files(tmp_path).keys() == {"notes.txt", "plan.json", MARK, "shop.jsonl"}


def interrupted(place: Path, *begun: str) -> None:
    """Stand for a run of which these have begun their ledgers."""
    for name in begun:
        Ledger(place, name).close()
    raise KeyboardInterrupt


@pytest.mark.parametrize("begun", [[], [NETWORK]], ids=["nothing", "network"])
def test_a_run_that_is_interrupted_before_a_role_begins_leaves_the_earlier_one(
    begun: list[str], tmp_path: Path
) -> None:
    """The network's ledger is there before any role."""
    before = stored(tmp_path)
    with pytest.raises(KeyboardInterrupt), renewed(Plan(), tmp_path) as place:
        interrupted(place, *begun)
    assert files(tmp_path) == before


def test_an_error_of_a_run_that_has_begun_leaves_that_run(tmp_path: Path) -> None:
    stored(tmp_path)
    with pytest.raises(KeyboardInterrupt), renewed(Plan(), tmp_path) as place:
        interrupted(place, "shop")
    assert files(tmp_path).keys() == {"plan.json", MARK, "shop.jsonl"}
    assert record.read(tmp_path).plan == Plan()


def test_a_launcher_that_is_killed_anywhere_loses_no_run(tmp_path: Path) -> None:
    """The next one is killed, too, while it puts the earlier run back. The one after that cannot start."""
    for number in itertools.count():
        before = stored(place := tmp_path / str(number))
        killed = is_killed_at(number, partial(new_run, place))
        is_over = (place / "shop.jsonl").exists() and (place / "run.json").exists()
        is_killed_at(2 * number, partial(no_run, place))
        no_run(place)
        found = files(place)
        if is_over:
            assert found.keys() == {"plan.json", MARK, "run.json", "shop.jsonl", "shop.log", "shop.stacks"}
            assert record.read(place).name == "new"
        else:
            assert found == before
        if not killed:
            assert number > 20
            assert is_over
            return


def new_run(place: Path) -> None:
    with renewed(Plan(), place):
        Ledger(place, "shop").close()
        os.mknod(place / "shop.log")  # both at once: no audit event, so no kill between them
        os.mknod(place / "shop.stacks")
        record.write(place, name="new", ends={"shop": End("Returned", "returned", 9.0)})


def no_run(place: Path) -> None:
    with suppress(WorldError), renewed(Plan(), place):
        raise WorldError("no threads")


def is_killed_at(number: int, work: Callable[[], object]) -> bool:
    """Do the work in a process that is killed before this operation on files; False if it has fewer."""
    child = os.fork()
    if child == 0:
        operations = itertools.count()

        def kill(event: str, arguments: tuple[Any, ...]) -> None:
            is_change = event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir")
            if (is_change or (event == "open" and arguments[2] & os.O_CREAT)) and next(operations) == number:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(kill)
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -signal.SIGKILL)
    return status != 0


def test_a_folder_that_was_not_there_is_not_there_again(tmp_path: Path) -> None:
    with pytest.raises(WorldError), renewed(PLAN, tmp_path / "new" / "run"):
        raise WorldError("no threads")
    assert list(tmp_path.iterdir()) == []


def world_that_cannot_start(place: Path) -> None:
    with scope(Plan(), place, record=True) as arguments, launch(["a", "a"], **arguments):
        raise AssertionError


def network_that_cannot_be_made(place: Path) -> None:
    with scope(Plan.parse("Partition role=a direction=both"), place, ["a"] * 300):
        raise AssertionError


@pytest.mark.parametrize(
    ("start", "error"),
    [
        (partial(run_script, ["no-such-command"], Plan()), FileNotFoundError),
        (world_that_cannot_start, WorldError),
        (network_that_cannot_be_made, (NetworkError, WorldError)),
    ],
    ids=["no-command", "no-world", "no-network"],
)
def test_a_run_that_cannot_start_loses_nothing(
    start: Callable[[Path], object], error: type[Exception], tmp_path: Path
) -> None:
    before = stored(tmp_path)
    with pytest.raises(error):
        start(tmp_path)
    assert files(tmp_path) == before


@pytest.mark.parametrize("name", ["plan.json", "run.json", "data.jsonl", "+.notes.status"])
def test_a_file_of_the_users_own_is_never_replaced(name: str, tmp_path: Path) -> None:
    """It is kept even if it has the name of one of a run's files."""
    (tmp_path / name).write_text(OWN)
    with pytest.raises(PlanError, match=f"has {name.replace('+', '.')}, {WANTED}"):
        prepared(PLAN, tmp_path)
    assert files(tmp_path) == {name: OWN.encode()}


def test_a_plan_that_the_user_has_written_is_never_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """This holds even for a plan in the form in which runs store theirs."""
    (tmp_path / "plan.json").write_text(before := PLAN.to_json() + "\n")
    for arguments in (["prepare", str(tmp_path)], ["run", "rpc_basics", "--dir", str(tmp_path)]):
        assert main([*arguments, "--healthy"]) == 2
        assert f"has plan.json, {WANTED}\n" in capsys.readouterr().err
    assert files(tmp_path) == {"plan.json": before.encode()}


def test_a_file_beside_a_runs_own_is_never_removed(tmp_path: Path) -> None:
    before = stored(tmp_path)
    (tmp_path / "data.jsonl").write_text(OWN)
    with pytest.raises(PlanError, match=f"has data.jsonl, {WANTED}"):
        prepared(PLAN, tmp_path)
    assert files(tmp_path) == {**before, "data.jsonl": OWN.encode()}


@pytest.mark.parametrize(
    ("name", "writer"),
    [("ps.log", "world"), ("worker1.stacks", "world"), ("rendezvous", "world"), ("network.json", "run")],
)
def test_a_users_file_with_the_name_of_a_worlds_file_is_never_removed(
    name: str, writer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No file of a run is written beside it either."""
    (tmp_path / name).write_text(OWN)
    assert main(["run", "parameter_server", "--healthy", "--dir", str(tmp_path)]) == 2
    assert re.fullmatch(rf"error: .* has {name}, which no {writer} has written: wanted .*\n", capsys.readouterr().err)
    assert files(tmp_path) == {name: OWN.encode()}


def test_a_log_beside_which_no_world_has_left_stacks_is_the_users(tmp_path: Path) -> None:
    """A script may have written it, and may have the name of a role."""
    stored(tmp_path)
    (tmp_path / "till.stacks").unlink()
    prepared(Plan(), tmp_path)
    assert files(tmp_path).keys() == {"plan.json", MARK, "till.log", "rendezvous"}


def test_a_plan_stays_where_nothing_can_be_set_aside(tmp_path: Path) -> None:
    """Even a plan without any ledger stays. A full disk may cause this."""
    prepared(PLAN, tmp_path)
    (tmp_path / MOVING).touch()
    before = files(tmp_path)
    with pytest.raises(FileExistsError):
        prepared(Plan(), tmp_path)
    assert files(tmp_path) == before


@pytest.mark.parametrize(("made", "why"), [("fifo", "is a file"), ("loop", "is a loop of links|File exists")])
def test_an_impossible_folder_is_refused_in_one_line(
    made: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert main(["prepare", str(tmp_path / made), "--healthy"]) == 2
    assert re.fullmatch(rf"error: .*({why}).*\n", capsys.readouterr().err)


@pytest.mark.parametrize("without", [[MARK], [MARK, "till.jsonl"], [MARK, "run.json"], ["till.jsonl", "run.json"]])
def test_a_run_is_known_by_what_is_left_of_it(without: list[str], tmp_path: Path) -> None:
    """The run was stored by an earlier version, or copied in part, or has not run yet."""
    stored(tmp_path)
    (tmp_path / "+.7.status").unlink()
    for name in without:
        (tmp_path / name).unlink()
    prepared(Plan(), tmp_path)
    assert record.read(tmp_path).plan == Plan()


@pytest.mark.parametrize(
    "arguments",
    [["prepare", ""], ["check", ""], *([*run, "--dir", ""] for run in (["run", "rnn"], ["list", "rnn"]))],
    ids=lambda words: words[0],
)
@pytest.mark.usefixtures("own_folder")
def test_an_empty_name_is_no_folder(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """An empty name would be the current folder."""
    healthy = ["--healthy"] * (arguments[0] in ("prepare", "run"))
    assert main([*arguments, *healthy]) == 2
    assert capsys.readouterr().err.endswith("wanted a folder, got ''\n")
    with pytest.raises(PlanError, match="wanted a folder, got ''"):
        prepared(PLAN, "")
    assert list(Path().iterdir()) == []


def test_numbered_runs_of_an_earlier_sweep_are_removed_and_nothing_else(tmp_path: Path) -> None:
    for name in ("0000", "0017", "12345", "20261129", "1234-mine", "healthy"):
        with renewed(Plan(), tmp_path / name):
            pass
    (tmp_path / "0002").mkdir()  # of the user
    (tmp_path / "0003").symlink_to(tmp_path / "healthy")
    remove_numbered(tmp_path)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["0002", "0003", "1234-mine", "20261129", "healthy"]
