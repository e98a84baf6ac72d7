"""Worlds that are started again: whoever is killed, the trace has the bits of a run that nobody hurt."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from faults.judge.facts import Facts
from faults.ledger.run_files import CHECKPOINTS
from faults.plan import Plan
from faults.run.runs import run, scope
from faults.run.tutorial import of_tutorial
from reference import load
from reference.outcome import Killed, Outcome, Overdue, Raised, Returned
from reference.trace.checkpoint import Checkpoints
from reference.verify import quick
from reference.world import World, launch
from reference.world.start import new_rendezvous
from tests.matrix.places import PLACES
from tests.support import roles_recovery as plays
from tests.support.roles_plain import be_deaf, kill_oneself, wait_for_ever

pytestmark = pytest.mark.usefixtures("forkserver")

TRAINING = [name for name in PLACES if name not in ("rpc_basics", "rref_dataflow")]
# What has a state of its own, besides the quick cases.
OTHERS: list[tuple[str, Mapping[str, Any]]] = [
    ("parameter_server", {"staleness": 0}),
    ("batch_parameter_server", {"accumulation": "arrival", "trainers": 3}),
]


@pytest.fixture(autouse=True)
def _lives(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "reference.world.world")


def texts(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "reference.world.world"]


def kills() -> Iterator[Any]:
    """Each role of each tutorial, at a step and around a call that it answers. Who logs the step is killed at once."""
    for name, fields in [*((name, {}) for name in TRAINING), *OTHERS]:
        place, case = PLACES[name], quick(name, steps=4, **fields)
        more = "-".join(map(str, fields.values()))
        for role in sorted(load(name).roles(case), key=lambda each: each != place.step):
            marks = () if role == place.step else pytest.mark.long
            plan = f"Crash role={role} at=step:3@{place.step}"
            yield pytest.param(case, plan, id=f"{name}-{more or role}", marks=marks)
            if more:
                break
        for when in ("before", "after"):
            plan = f"Crash site={place.site} role={place.caller} nth={place.nth} when={when}"
            yield pytest.param(case, plan, id=f"{name}-{more}{when}", marks=pytest.mark.long)
        for what in ("writing", "written", "valid"):  # each role makes step 2 valid, or sees at step 3 that it is
            for role in load(name).roles(case) if what == "written" else [place.callee]:
                plan = f"Crash role={role} at={what}:2@{role}"
                yield pytest.param(case, plan, id=f"{name}-{more}{what}-{role}", marks=pytest.mark.long)


@pytest.mark.parametrize(("case", "plan"), [*kills()])
def test_a_run_whose_role_is_killed_has_the_bits_of_a_run_that_nobody_hurt(
    case: Any, plan: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found, judgement = run(of_tutorial(case), Plan.parse(plan), tmp_path, restarts=2)
    assert judgement.verdict == "recovered", str(judgement)
    assert found.difference.startswith("bits equal in "), found.difference
    first, second = texts(caplog)
    assert first.endswith(" was killed by SIGKILL")
    assert " at=" not in plan or second.startswith("life 2 goes on after step ")
    if plan.startswith(f"Crash role={PLACES[case.tutorial()].step} "):
        assert second in ("life 2 goes on after step 1", "life 2 goes on after step 2")
    assert [life.number for life in Facts(found).lives] == [1, 2] * len(found.ends)


def full_disks() -> Iterator[Any]:
    for name in TRAINING:
        case = quick(name, timeout=5.0)
        for role in load(name).roles(case):
            marks = () if role == PLACES[name].callee else pytest.mark.long
            yield pytest.param(case, role, id=f"{name}-{role}", marks=marks)


@pytest.mark.parametrize(("case", "role"), [*full_disks()])
def test_a_full_disk_of_any_role_ends_all_in_time(case: Any, role: str, tmp_path: Path) -> None:
    roles = load(case.tutorial()).roles(case)
    checkpoints = Checkpoints.of_case(tmp_path, case, [*roles])
    with launch(roles, checkpoints=checkpoints, before=partial(plays.full_disk, role), deadline=30) as world:
        outcomes = world.wait()
    assert all(isinstance(each, Raised) for each in outcomes.values()), outcomes
    assert "No space left on device" in str(outcomes[role])


@pytest.mark.long
def test_a_worker_waits_with_its_checkpoint_for_one_that_is_much_slower(tmp_path: Path) -> None:
    """Longer than the time-out, in which the slower one is never silent."""
    case = quick("parameter_server", steps=30, timeout=1.0)
    roles = load("parameter_server").roles(case)
    slow = "Delay site=reference.parameter_server:ParameterServer.apply_gradients role=worker2 every=true side=request"
    checkpoints = Checkpoints.of_case(tmp_path / "steps", case, [*roles], every=30)
    with (
        scope(Plan.parse(f"{slow} seconds=0.3"), tmp_path, [*roles]) as arguments,
        launch(roles, checkpoints=checkpoints, deadline=60, **arguments) as world,
    ):
        assert {type(each) for each in world.wait().values()} == {Returned}


# Worlds


def world_of(play: Callable[[], object], folder: Path, restarts: int = 3, **how: Any) -> World:
    """``a`` saves its steps, and ``b`` plays."""
    checkpoints = Checkpoints(folder / "steps", ["a", "b"], resume=True)
    return launch({"a": plays.steps, "b": play}, checkpoints=checkpoints, restarts=restarts, **how)


def ended(play: Callable[[], object], folder: Path, **how: Any) -> tuple[dict[str, Outcome], int, list[str]]:
    """The outcomes, the last life, and the roles by whose loss the earlier ones ended."""
    with world_of(play, folder, **how) as world:
        assert (world.life, world.lost) == (1, [])
        outcomes = world.wait()
        return outcomes, world.life, [f"{each.role} {each.outcome}" for each in world.lost]


def test_each_life_goes_on_from_the_last_valid_step(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    play = partial(plays.killed_after, tmp_path / "steps", 1, 2)
    outcomes, life, lost = ended(play, tmp_path)
    assert (outcomes["b"], life, lost) == (Returned(2), 3, ["b was killed by SIGKILL"] * 2)
    assert texts(caplog) == [
        "life 1 ended: b was killed by SIGKILL",
        "life 2 goes on after step 1",
        "life 2 ended: b was killed by SIGKILL",
        "life 3 goes on after step 2",
    ]


def test_who_fails_twice_by_one_error_from_one_step_is_not_started_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    outcomes, life, lost = ended(partial(plays.unlucky_after, tmp_path / "steps", 1), tmp_path, restarts=9)
    assert isinstance(outcomes["b"], Raised)
    assert (life, lost) == (3, ["b raised tests.support.roles_plain.Unlucky: as ever"] * 2)
    assert texts(caplog)[-1] == "life 3 ended: b raised tests.support.roles_plain.Unlucky: as ever, as before"


def test_who_fails_by_one_error_from_another_step_is_started_again(tmp_path: Path) -> None:
    _, life, lost = ended(partial(plays.unlucky_each_time, tmp_path / "steps"), tmp_path, restarts=2)
    assert (life, len(lost)) == (3, 2)


def test_who_is_always_killed_is_started_again_so_often(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    outcomes, life, lost = ended(kill_oneself, tmp_path, restarts=2)
    assert (outcomes["b"], life, len(lost)) == (Killed(signal.SIGKILL), 3, 2)
    assert "life 3 begins with the first step" in texts(caplog)


def test_a_world_that_was_closed_is_not_started_again() -> None:
    with launch({"a": wait_for_ever, "b": wait_for_ever}, restarts=1) as world:
        world.close()
        assert {*world.wait().values()} == {Killed(signal.SIGKILL)}
        assert world.life == 1


@pytest.mark.parametrize(("end", "outcome"), [(World.close, Killed), (World.expire, Overdue)])
def test_a_world_that_is_ended_while_its_next_life_begins_has_ended(
    end: Callable[[World], object], outcome: type[Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread waits for it."""
    begun, closed, waited = threading.Event(), threading.Event(), list[dict[str, Outcome]]()

    def told(place: Path) -> None:
        new_rendezvous(place)
        begun.set()
        closed.wait(0.5)

    monkeypatch.setattr("reference.world.world.new_rendezvous", told)
    with launch({"a": wait_for_ever, "b": wait_for_ever}, restarts=1) as world:
        waiting = threading.Thread(target=lambda: waited.append(world.wait()))
        waiting.start()
        os.kill(world.pids["b"], signal.SIGKILL)
        assert begun.wait(30)
        end(world)
        closed.set()
        waiting.join(30)
        assert world.life == 2
    assert [{name: type(each) for name, each in found.items()} for found in waited] == [dict.fromkeys("ab", outcome)]


def test_a_deadline_is_that_of_all_lives(tmp_path: Path) -> None:
    with world_of(partial(plays.waits, tmp_path), tmp_path, deadline=3) as world:
        begun = time.monotonic()
        outcomes = world.wait()
        assert (type(outcomes["b"]), world.life) == (Overdue, 2)
        assert world.ended["b"] - begun < 4.5  # it is 5 s if life 2, after 2 s, has 3 s of its own


def test_a_role_that_may_be_started_again_has_time_to_write_its_stacks() -> None:
    """Another one has written its own before."""
    with launch({"a": wait_for_ever, "b": be_deaf}, deadline=3, restarts=1) as world:
        late = world.wait()["b"]
    assert isinstance(late, Overdue)
    assert late.stacks == "(no complete stacks; kernel state: S (sleeping))\n"


def test_no_process_of_an_earlier_life_is_left(tmp_path: Path) -> None:
    outcomes, life, _ = ended(partial(plays.leaves_processes, tmp_path, lives=3), tmp_path)
    assert (outcomes["b"], life) == (Returned([]), 3)


# The judge


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ("seed=0", "b was killed by SIGKILL: no fault was planned"),
        ("Pause role=a at=up@a seconds=0.01", "b was killed by SIGKILL: the plan sent no such signal"),
    ],
    ids=["healthy", "after a fault"],
)
def test_a_signal_that_nobody_sent_is_not_passed_although_the_next_life_is_right(
    plan: str, said: str, tmp_path: Path
) -> None:
    subject = plays.subject(partial(plays.killed_after, tmp_path / CHECKPOINTS, 1))
    found, judgement = run(subject, Plan.parse(plan), tmp_path, recorded=True, restarts=1)
    assert (found.trace, len(found.lost)) == ("equal", 1)
    assert judgement.verdict == "wrong", str(judgement)
    assert said in str(judgement)


def test_a_run_begins_with_no_earlier_runs_checkpoints_and_leaves_other_files_alone(tmp_path: Path) -> None:
    own = tmp_path / "checkpoints" / "model"
    own.parent.mkdir()
    own.touch()
    for _ in range(2):
        found, judgement = run(plays.subject(plays.steps), Plan(), tmp_path, recorded=True, restarts=1)
        assert judgement.verdict == "equal", str(judgement)
        assert {each.name for each in tmp_path.glob("*checkpoints")} == {"checkpoints", CHECKPOINTS}
    assert own.exists()
    assert "[0, 0]" in found.difference


def test_who_is_ended_with_a_role_that_is_not_started_again_convicts_nobody(tmp_path: Path) -> None:
    """The launcher has killed it."""
    plan = Plan.parse("Crash role=b at=up@b how=exit:1 lives=every")
    waiting = replace(plays.subject(plays.steps), roles={"a": wait_for_ever, "b": plays.steps})
    found, judgement = run(waiting, plan, tmp_path, restarts=3)
    assert judgement.verdict == "failed loudly", str(judgement)
    assert len(found.lost) == 1
    assert "a (life 2) was killed by SIGKILL, because b exited with status 1, " in str(judgement)


def test_a_life_of_which_no_ledger_tells_is_not_passed(tmp_path: Path) -> None:
    """Nothing was recorded, or the role ended before its RPC started."""
    subject = plays.subject(partial(plays.killed_after, tmp_path / CHECKPOINTS, 1))
    found, judgement = run(subject, Plan(), tmp_path, restarts=1)
    assert judgement.verdict == "unknown", str(judgement)
    assert f"process {found.lost[0].process}, which was killed by SIGKILL: no ledger" in str(judgement)
