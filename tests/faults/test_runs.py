"""Real runs: each verdict is stored, and is the same when the folder is judged again elsewhere."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faults.cli.main import main
from faults.judge.bound import bound_of_timeout
from faults.judge.rules import DEFECTS, Judgement, judge
from faults.ledger import read, record
from faults.ledger.ledger import SCHEMA, boot_id
from faults.ledger.record import Run
from faults.plan import Plan
from faults.run import leftovers, runs
from faults.run.leftovers import leaks
from faults.run.runs import run
from reference.world import World, launch
from tests.support import own_process
from tests.support import roles_subjects as plays
from tests.support.networks import require
from tests.support.processes import children_of

pytestmark = pytest.mark.usefixtures("forkserver")

LOST = f"Drop site={plays.PAY} role=till nth=2 side=request"
UNANSWERED = f"Drop site={plays.PAY} role=till nth=2 side=reply"
CRASH = f"Crash site={plays.PAY} role=till nth=2 when=after"
RAISE = f"Raise site={plays.PAY} role=till nth=2 side=request error=ValueError text=gone"
DELAY = f"Delay site={plays.PAY} role=till nth=3 side=reply seconds=0.1"
CORRUPT = f"Corrupt site={plays.COINS} role=till nth=2 side=request change=zeros"

# The roles, the plan, the verdict, and the text of the check that decides.
RUNS = [
    (plays.careful, DELAY, "equal", "\nverdict: equal"),
    (plays.retrying, LOST, "equal", "\nverdict: equal"),
    (plays.retrying, LOST.replace("nth=2", "nth=2-3"), "failed loudly", "nth=2-3 side=request fired 2 of 2 times"),
    (plays.careful, CRASH, "failed loudly", "shop was killed by SIGKILL"),
    (plays.careful, RAISE, "failed loudly", "till raised ValueError: ValueError: On WorkerInfo(id=0, name=shop)"),
    (plays.careless, LOST, "wrong", "101 in the till"),
    (plays.retrying, UNANSWERED, "wrong", "121 in the till"),
    (plays.clumsy, LOST, "wrong", "till raised AttributeError: 'NoneType'"),
    (plays.strict, DELAY.replace("pay", "strictly_pay"), "wrong", "till raised RuntimeError: AssertionError: On "),
    (plays.forgetful, DELAY, "leaked", "till: num_autograd_contexts=1"),
    (plays.trusting, CORRUPT, "wrong", "101 in the till"),
    (plays.trusting, CORRUPT.replace("request", "reply"), "equal", "\nverdict: equal"),
]


def played(till: Callable[[], object], plan: str, place: Path) -> tuple[Run, Judgement]:
    return run(plays.subject(till), Plan.parse(plan), place, deadline=30)


@pytest.mark.parametrize(("till", "plan", "verdict", "said"), RUNS, ids=lambda value: getattr(value, "__name__", None))
def test_each_run_and_its_check_have_the_same_verdict(
    till: Callable[[], object],
    plan: str,
    verdict: str,
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`check` says the same of the folder alone, wherever it is."""
    found, judgement = played(till, plan, tmp_path / "run")
    assert judgement.verdict == verdict, str(judgement)
    assert said in str(judgement)
    assert judgement.status == (1 if verdict in DEFECTS else 0)
    moved = (tmp_path / "run").rename(tmp_path / "moved")
    assert judge(record.read(moved)) == judgement
    assert main(["check", str(moved)]) == judgement.status
    assert str(judgement) in capsys.readouterr().out
    assert found.seconds < 20


@pytest.mark.parametrize("plan", [DELAY, CRASH])
def test_a_run_keeps_no_thread_and_no_open_file(plan: str, tmp_path: Path) -> None:
    played(plays.careful, plan, tmp_path / "first")  # it opens what stays for all
    before = own_process.everything()
    played(plays.careful, plan, tmp_path / "second")
    assert own_process.left_since(before) == []


def test_no_role_is_given_up_within_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A role that ends in time has not hung, even if it heard of the loss late."""
    given: list[float] = []

    def seen(*roles: Any, grace: float, **arguments: Any) -> World:
        given.append(grace)
        return launch(*roles, grace=grace, **arguments)

    monkeypatch.setattr(runs, "launch", seen)
    found, _ = played(plays.careful, DELAY, tmp_path)
    assert found.timeout is not None
    assert given == [2 * found.timeout + 10.0 + 0.1]


def test_processes_that_a_run_leaves_are_named_and_ended(tmp_path: Path) -> None:
    """Other processes that this one started are left alone."""
    before = children_of(os.getpid())
    found, _ = played(plays.untidy, "seed=0", tmp_path)
    assert ["sleep 1000 still runs" in leak for leak in found.leaks] == [True]
    new = children_of(os.getpid()) - before
    assert {pid for pid in new if b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes()} == set()
    assert not leaks(found.timeline)


def start_of(pid: int, wall: float, seconds: float = 1.0, boot: str = "") -> str:
    """The first line of a role's ledger. ``seconds``: monotonic."""
    start = {"event": "start", "schema": SCHEMA, "time": seconds, "process": pid, "pid": pid, "wall": wall}
    return json.dumps({**start, "boot": boot}) + "\n"


def test_a_process_that_has_the_id_of_a_role_is_not_the_role(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has begun later than the role, or runs on another machine than the role did."""
    monkeypatch.setattr(leftovers, "SHARED", tmp_path / "none")
    now, ledger = time.monotonic(), tmp_path / "till.jsonl"
    for seconds, boot, left in ((now, boot_id(), [f"till still runs (process {os.getpid()})"]), (1.0, boot_id(), [])):
        ledger.write_text(start_of(os.getpid(), 0.0, seconds, boot))
        assert leaks(read(tmp_path)) == left
    other = start_of(os.getpid(), 0.0, now, "another machine's")
    ledger.write_text(other)
    assert leaks(read(tmp_path)) == []
    ledger.write_text(start_of(os.getpid(), 0.0, now, boot_id()) + other)
    assert leaks(read(tmp_path)) == [f"till still runs (process {os.getpid()})"]


@pytest.fixture
def memory(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Shared memory with the name of a role's whose process has ended. Its ledger is in the test's folder."""
    monkeypatch.setattr(leftovers, "SHARED", shared := tmp_path_factory.mktemp("shared"))
    with subprocess.Popen(["true"]) as process:
        pid = process.pid
    made = shared / f"torch_{pid}_{os.getpid()}"
    made.touch()
    (tmp_path / "till.jsonl").write_text(start_of(pid, wall=made.lstat().st_ctime + 50, boot=boot_id()))
    assert leaks(read(tmp_path)) == [f"shared memory {made.name}"]
    return made


def test_shared_memory_that_is_much_older_than_its_role_is_no_leak(memory: Path, tmp_path: Path) -> None:
    """A process that was killed may have left it, and the role may have got that process's id."""
    pid = int(memory.name.split("_")[1])
    (tmp_path / "till.jsonl").write_text(start_of(pid, wall=memory.lstat().st_ctime + 70, boot=boot_id()))
    assert leaks(read(tmp_path)) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make another user's file")
def test_shared_memory_of_another_user_is_no_leak(memory: Path, tmp_path: Path) -> None:
    """Another user may give shared memory the name of a role's."""
    os.chown(memory, 65534, 65534)
    assert leaks(read(tmp_path)) == []


def test_a_run_begins_before_its_network_and_ends_after_its_roles(tmp_path: Path) -> None:
    """Events count from the start of the network, which may take longer than the roles do."""
    require()
    found, judgement = played(plays.careful, "Reset role=till peer=shop at=up@till", tmp_path)
    assert judgement.verdict == "failed loudly"
    assert found.start <= found.zero
    assert max(end.time for end in found.ends.values()) <= found.start + found.seconds


def test_nothing_is_recorded_unless_something_is_planned_or_it_is_asked_for(tmp_path: Path) -> None:
    plain, _ = played(plays.careful, "seed=0", tmp_path / "plain")
    assert plain.timeline.roles == ()
    subject = plays.subject(plays.careful)
    recorded, judgement = run(subject, Plan(), tmp_path / "recorded", recorded=True)
    assert recorded.timeline.roles == ("shop", "till")
    assert 0.0 < recorded.zero - recorded.start < recorded.seconds  # ends and events have one clock
    assert judgement.verdict == "equal"
    assert bound_of_timeout(subject.timeout) == 2 * (recorded.timeout or 0.0) + 10.0 == 12.0
