"""A role whose GIL is held lives, and runs no Python for so long: seen by the role itself, and by the receipt."""

from __future__ import annotations

import os
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from faults.inject.process import hold
from faults.inject.process.hold import GilHolder, Witness, entrance_of, order_hold
from faults.inject.process.target import CannotFireError
from faults.ledger import Ledger, read
from faults.plan import Plan
from faults.run.runs import scope
from reference.outcome import Returned
from reference.world import launch
from tests.support import roles_hold as plays
from tests.support import roles_processes

SECONDS = 0.4


def test_a_role_runs_no_python_while_another_one_holds_it(tmp_path: Path) -> None:
    plan = Plan.parse(f"Hold role=b at=step:1@a seconds={SECONDS}")
    roles = {"a": plays.hold, "b": partial(plays.longest_gap, SECONDS)}
    with scope(plan, tmp_path, list(roles)) as arguments, launch(roles, deadline=60, **arguments) as world:
        outcome = world.wait()["b"]
    assert isinstance(outcome, Returned)
    assert outcome.value >= SECONDS
    timeline = read(tmp_path)
    (fired,), (effective,) = timeline.of("fired"), timeline.of("effective")
    assert (fired.role, effective.role) == ("a", "b")
    assert SECONDS <= effective.details["kept"] < 10
    assert timeline.of("failed") == []


def test_a_role_that_holds_itself_goes_on_when_it_has_said_so(tmp_path: Path) -> None:
    plan = Plan.parse("Hold role=a at=step:1@a seconds=0.2")
    roles = {"a": roles_processes.timed_step}
    with scope(plan, tmp_path, ["a"]) as arguments, launch(roles, deadline=60, **arguments) as world:
        outcome = world.wait()["a"]
    assert isinstance(outcome, Returned)
    assert outcome.value >= 0.2
    events = [each.event for each in read(tmp_path).events if each.event in ("fired", "effective", "shutdown")]
    assert events == ["fired", "effective", "shutdown"]


def ordered(folder: Path, seconds: float) -> list[str]:
    """Hold this process, and return the events of its ledger after its start."""
    folder.mkdir()
    ledger = Ledger(folder, "a")
    holder, process = GilHolder(ledger), os.pidfd_open(os.getpid())
    try:
        order_hold(entrance_of(ledger.path, os.getpid()), process, seconds, {"fault": 0, "kind": "Hold"}, itself=True)
    finally:
        holder.close()
        os.close(process)
        ledger.close()
    return [each.event for each in read(folder).events][1:]


def test_a_process_holds_as_often_as_another_one_orders(tmp_path: Path) -> None:
    """The one who orders waits until the hold begins, and not for its end."""
    ledger = Ledger(tmp_path, "a")
    holder, process = GilHolder(ledger), os.pidfd_open(os.getpid())
    try:
        for number in range(3):
            entrance, named = entrance_of(ledger.path, os.getpid()), {"fault": number, "kind": "Hold"}
            order_hold(entrance, process, 0.02, named, itself=False)
        order_hold(entrance, process, 0.02, {"fault": 3, "kind": "Hold"}, itself=True)  # the last one has been recorded
    finally:
        holder.close()
        os.close(process)
        ledger.close()
    assert [(each.event, each.details.get("fault")) for each in read(tmp_path).events[2:]] == [
        ("effective", number) for number in range(4)
    ]


def test_a_hold_that_lets_other_threads_run_is_no_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a Python without a GIL. The receipt is the time for which another thread was kept from running."""
    assert ordered(tmp_path / "held", 0.05) == ["listens", "effective"]
    monkeypatch.setattr(hold, "hold_gil", lambda seconds, handle: (os.write(handle, b"!"), time.sleep(seconds)))
    assert ordered(tmp_path / "free", 0.5) == ["listens", "failed"]


def test_a_witness_says_how_long_it_was_kept_from_running() -> None:
    free = Witness()
    threading.Event().wait(0.5)
    assert free.end() < 0.5
    kept = Witness()
    reading, writing = os.pipe()
    hold.hold_gil(0.1, writing)
    assert 0.1 <= kept.end() < 5
    assert os.read(reading, 1) == b"!"
    os.close(reading)
    os.close(writing)


def test_a_process_that_takes_no_orders_cannot_be_held(tmp_path: Path) -> None:
    Ledger(tmp_path, "a").close()
    with pytest.raises(CannotFireError, match=r"^process \d+ takes no orders to hold its GIL$"):
        entrance_of(tmp_path / "a.jsonl", os.getpid())
