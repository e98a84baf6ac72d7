"""Properties of real tutorials under faults: each check of a run, on a tutorial that would break it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from faults.judge.rules import Judgement, judge
from faults.plan import Plan
from faults.run.runs import of_tutorial, run
from reference.cli.table_command import warm_up
from reference.verify import quick

UPDATE = "reference.batch_parameter_server:BatchUpdateParameterServer.update_and_fetch_model"
APPLY = "reference.parameter_server:ParameterServer.apply_gradients"

# Seconds within which survivors end, and the case's timeout, for which they would wait for a peer.
SOON, TIMEOUT = 4.0, 8.0


@pytest.fixture(scope="module", autouse=True)
def _warm() -> None:
    """Start the forkserver before any deadline: it takes seconds on a busy machine."""
    warm_up()


def judged(
    name: str,
    plan: str,
    place: Path,
    *,
    bound: float | None = None,
    timeout: float = TIMEOUT,
    deadline: float = 30,
) -> Judgement:
    """``bound``: instead of the one that follows from the case's timeout."""
    subject = of_tutorial(quick(name, timeout=timeout))
    found, judgement = run(subject, Plan.parse(plan), place, deadline=deadline, recorded=True)
    return judgement if bound is None else judge(replace(found, bound=bound))


@pytest.mark.parametrize(
    "name", ["parameter_server", "batch_parameter_server", "dist_autograd", "reinforce", "batch_reinforce", "pipeline"]
)
def test_a_healthy_run_is_equal(name: str, tmp_path: Path) -> None:
    """Nothing is left: no RRef, context, process or shared memory."""
    judgement = judged(name, "seed=0", tmp_path)
    assert judgement.verdict == "equal", str(judgement)


@pytest.mark.parametrize(
    ("name", "plan"),
    [
        ("parameter_server", f"Delay site={APPLY} role=worker1 nth=2 side=request seconds=0.2"),
        ("parameter_server", f"Duplicate site={APPLY} role=worker2 nth=1"),
        ("batch_parameter_server", f"Delay site={UPDATE} role=trainer1 nth=1 side=reply seconds=0.2"),
        ("batch_parameter_server", f"Order site={UPDATE} roles=trainer2,trainer1 nth=1 seconds=5"),
    ],
    ids=["late", "twice", "late-reply", "order"],
)
def test_what_loses_nothing_changes_nothing(name: str, plan: str, tmp_path: Path) -> None:
    judgement = judged(name, plan, tmp_path)
    assert judgement.verdict == "equal", str(judgement)


@pytest.mark.parametrize(
    ("name", "plan"),
    [
        ("batch_parameter_server", "Crash role=trainer2 at=step:1@trainer2"),
        ("batch_parameter_server", f"Raise site={UPDATE} role=trainer2 nth=2 side=request"),
        ("reinforce", "Crash role=observer2 at=call:reference.reinforce:Agent.select_action#3@observer2"),
    ],
    ids=["crash", "raise", "observer"],
)
def test_a_loss_ends_everybody_soon(name: str, plan: str, tmp_path: Path) -> None:
    """They end long before any role's timeout."""
    judgement = judged(name, plan, tmp_path, bound=SOON)
    assert judgement.verdict == "failed loudly", str(judgement)


def test_a_silent_worker_is_given_up_only_after_the_cases_timeout(tmp_path: Path) -> None:
    """A worker that dies asynchronously is missed after the case's timeout, which a busy machine must not use up
    before the death."""
    plan = f"Crash role=worker2 at=call:{APPLY}#2@worker2"
    judgement = judged("parameter_server", plan, tmp_path, timeout=4.0, deadline=20)
    assert judgement.verdict == "failed loudly", str(judgement)
