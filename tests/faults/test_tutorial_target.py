"""A tutorial as a subject: its roles, and the judgement of its trace by its twin."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from faults.cli import tutorial_target
from faults.cli.options import HEALTHY
from faults.cli.tutorial_target import TutorialTarget, tutorial_of
from faults.judge.rules import Judgement
from faults.ledger import Timeline
from faults.ledger.record import Run
from faults.plan import Plan
from faults.run.runs import Compared
from faults.run.tutorial import of_tutorial
from reference import load
from reference.outcome import Raised, Returned
from reference.trace import Trace
from reference.verify import quick

CASE = quick("dist_autograd")


def test_a_subjects_trace_is_judged_by_its_twin() -> None:
    subject, trace = of_tutorial(CASE), load("dist_autograd").train_locally(CASE)
    judged = subject.judge({"worker0": Returned(trace), "worker1": Returned(None)})
    assert judged is not None
    assert judged[0] == "equal"
    assert Compared(*judged).losses == {"run": trace.losses(), "twin": trace.losses()}
    name, tensor = next((name, tensor) for name, tensor in trace.tensors.items() if tensor.is_floating_point())
    spoilt = replace(trace, tensors={**trace.tensors, name: tensor + 1})
    judged = subject.judge({"worker0": Returned(spoilt)})
    assert judged is not None
    assert judged[0] == "wrong"
    assert name in judged[1]


def test_a_trace_without_a_measure_is_unknown_not_wrong() -> None:
    """If an exact case's twin proves that the case is not exact, nothing is known of the run."""
    sizes = {"trainers": 4, "momentum": 0.5, "image_w": 8, "image_h": 8, "batch_size": 4}
    kind = load("batch_parameter_server").Case
    case = kind(model="mlp", arithmetic="exact", dtype="float64", lr=0.125, **sizes)
    trace = Trace(case, {f"{step:04d}/loss/trainer1": torch.zeros(()) for step in range(case.steps)})
    judged = of_tutorial(quick("batch_parameter_server")).judge({"ps": Returned(trace)})
    assert judged is not None
    assert judged[0] == "unknown"


def test_a_run_after_the_healthy_one_has_three_times_its_seconds_and_the_bound(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The healthy run takes 7 s, the timeout is 3 s, and the delay lasts 0.5 s."""
    deadlines: list[float | None] = []

    def seen(subject: object, plan: Plan, *_: object, deadline: float | None = None, **__: object) -> object:
        deadlines.append(deadline)
        return Run("", plan, Timeline((), {}, ()), seconds=7.0), Judgement((), "equal")

    monkeypatch.setattr(tutorial_target, "run", seen)
    _, again = TutorialTarget(of_tutorial(quick("rnn", timeout=3.0)), Namespace()).again(tmp_path)
    again(Plan.parse("Delay site=m:f role=a side=reply seconds=0.5"), tmp_path)
    assert deadlines == [None, 3 * 7.0 + (2 * 3.0 + 10.0) + 10.0 + 0.5]


@pytest.mark.parametrize(
    ("more", "seconds"), [("", 3.0), (" --device cuda", 30.0), (" --device cuda --timeout 5", 5.0)]
)
def test_roles_with_cuda_wait_longer_for_each_other(more: str, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA starts while others wait. The device is not looked for here."""
    monkeypatch.setattr(tutorial_target, "check_device", lambda case: None)
    target, _ = tutorial_of("run", "", f"parameter_server{more}".split(), [HEALTHY])
    assert target.subject.timeout == seconds


def test_without_a_trace_there_is_no_judgement() -> None:
    subject = of_tutorial(CASE)
    assert subject.judge({"worker0": Raised("RuntimeError", "no"), "worker1": Returned(3)}) is None
