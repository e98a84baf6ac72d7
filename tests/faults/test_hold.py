"""A role whose GIL is held lives, and runs no Python for so long: seen by the role itself, and by the receipt."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from faults.inject.process import hold
from faults.ledger import read
from faults.plan import Plan, PlanError
from faults.run.runs import scope
from reference.outcome import Returned
from reference.world import launch
from tests.support import roles_hold as plays
from tests.support import roles_processes

SECONDS = 0.4


@pytest.mark.parametrize(("side", "order"), [("request", ["fired", "executed"]), ("reply", ["executed", "fired"])])
def test_a_callee_runs_no_python_while_it_is_held(side: str, order: list[str], tmp_path: Path) -> None:
    plan = Plan.parse(f"Hold site=tests.support.roles_hold:visit side={side} seconds={SECONDS}")
    with (
        scope(plan, tmp_path, "ab") as arguments,
        launch({"a": plays.visitor, "b": partial(plays.longest_gap, SECONDS)}, deadline=60, **arguments) as world,
    ):
        outcome = world.wait()["b"]
    assert isinstance(outcome, Returned)
    assert isinstance(outcome.value, float)
    assert outcome.value >= SECONDS
    timeline = read(tmp_path)
    (effective,) = timeline.of("effective")
    assert {each.role for each in timeline.of("fired", "effective")} == {"b"}
    assert SECONDS <= effective.details["kept"] < 10
    assert SECONDS <= effective.details["seconds"] < 10
    assert [each.event for each in timeline.of("fired", "executed")] == order
    assert timeline.of("failed") == []


def test_a_role_that_holds_itself_goes_on_when_it_has_said_so(tmp_path: Path) -> None:
    plan = Plan.parse("Hold role=a at=step:1@a seconds=0.2")
    roles = {"a": roles_processes.timed_step}
    with scope(plan, tmp_path, ["a"]) as arguments, launch(roles, deadline=60, **arguments) as world:
        outcome = world.wait()["a"]
    assert isinstance(outcome, Returned)
    assert isinstance(outcome.value, float)
    assert outcome.value >= 0.2
    events = [each.event for each in read(tmp_path).events if each.event in ("fired", "effective", "shutdown")]
    assert events == ["fired", "effective", "shutdown"]


def held(seconds: float) -> str:
    """Hold this process, and return the event that tells what came of it."""
    told: list[str] = []

    def write(event: str, **details: Any) -> None:
        told.append(event)

    hold.hold(seconds, write)
    (event,) = told
    return event


def test_a_hold_that_lets_other_threads_run_is_no_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a Python without a GIL. The receipt is the time for which another thread was kept from running."""
    assert held(0.05) == "effective"
    monkeypatch.setattr(hold, "hold_gil", time.sleep)
    assert held(0.5) == "failed"


def test_a_hold_that_fails_does_not_keep_its_process() -> None:
    program = "from faults.inject.process.hold import hold; hold(float('nan'), lambda *_, **__: None)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert done.stderr.splitlines()[-1] == "ValueError: cannot convert float NaN to integer"


def test_no_signal_shortens_a_hold() -> None:
    came = threading.Event()
    before = signal.signal(signal.SIGALRM, lambda *_: came.set())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        assert held(0.3) == "effective"
        assert came.wait(10)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_handler_that_raises_after_a_hold_does_not_hide_its_effect() -> None:
    def refuse(*_: object) -> None:
        raise TimeoutError("too slow")

    told, before = list[str](), signal.signal(signal.SIGALRM, refuse)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(TimeoutError, match="too slow"):
            hold.hold(0.3, lambda event, **_: told.append(event))
        assert told == ["effective"]
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_role_is_held_at_a_moment_of_its_own_only() -> None:
    with pytest.raises(PlanError, match=r"^Hold needs a moment of b itself, got at='step:1@a'$"):
        Plan.parse("Hold role=b at=step:1@a seconds=1")
