"""`verify`: what a run in a world of its own is judged by, and that every tutorial has a small case."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import Field, fields, replace
from typing import Any

import pytest

from reference import TUTORIALS, load, rpc_basics
from reference.outcome import Exited, Killed, Raised, Returned
from reference.trace import CaseError
from reference.training.training_case import ExactableCase
from reference.verify import judge, prove
from reference.verify.verify import culprits, played, quick
from tests.support.runs import run


def scales(name: str) -> list[Field[Any]]:
    """Return the fields of a tutorial that count its roles."""
    return [item for item in fields(load(name).Case) if item.metadata.get("scales")]


def test_a_run_of_another_case_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own twin, that of the case in its trace, has the same bits."""
    roles, asked = rpc_basics.roles, rpc_basics.Case(steps=1)
    other = replace(asked, seed=1)
    monkeypatch.setattr(rpc_basics, "roles", lambda _: roles(other))
    row = played(asked)()
    assert row.verdict == "wrong"
    assert row.difference == f"the trace is of another case: {other}"


def test_an_earlier_run_can_be_judged_while_a_world_runs() -> None:
    """The world waits for what is done meanwhile, and that for the world."""
    begun, heard = threading.Event(), threading.Event()
    waited: list[bool] = []

    def on_progress(role: str, record: Mapping[str, Any]) -> None:
        if not heard.is_set():
            waited.append(begun.wait(20))
            heard.set()

    def meanwhile() -> None:
        begun.set()
        waited.append(heard.wait(20))

    judge = played(quick("parameter_server"), on_progress, meanwhile)
    assert all(waited)
    assert len(waited) > 1
    assert judge().verdict == "equal"


@pytest.mark.parametrize("name", TUTORIALS)
def test_it_runs_equal_to_its_twin(name: str) -> None:
    """The launcher hears of each step, the last one included."""
    case, reported = quick(name), set[tuple[int, int]]()

    def report(_: str, record: dict[str, Any]) -> None:
        reported.add((record["step"], record["steps"]))

    trace = run(case, on_progress=report)
    assert trace.case == case
    total = len(trace.losses())
    assert reported == {(step, total) for step in range(1, total + 1)}
    difference, verdict = judge(trace, load(name).train_locally)
    assert verdict in ("equal", "within bound"), difference


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in TUTORIALS if scales(name)])
def test_with_64_roles_it_runs_equal_to_its_twin(name: str) -> None:
    """Hybrid DDP has at most 15 trainers."""
    (item,), roles = scales(name), load(name).roles
    count = getattr(quick(name), item.name) + 64 - len(roles(quick(name)))
    case = quick(name, **{item.name: min(count, item.metadata["at_most"])})
    assert len(roles(case)) == (16 if name == "hybrid_ddp" else 64)
    difference, verdict = judge(run(case), load(name).train_locally)
    assert verdict in ("equal", "within bound"), difference


def test_roles_that_ended_by_another_ones_loss_are_no_culprits() -> None:
    lost = Exited(1)
    told, ended = Raised("reference.outcome.PeerLost", f"b {lost}"), Killed(9, f"b {lost}")
    assert culprits({"a": told, "b": lost, "c": ended, "d": Returned()}) == {"b": lost}
    assert culprits({"b": lost, "e": Killed(9)}) == {"b": lost, "e": Killed(9)}


@pytest.mark.parametrize(
    ("name", "fields", "line"),
    [
        ("nosuch", {}, "unknown tutorial 'nosuch', wanted one of rpc_basics, .*"),
        ("rnn", {"foo": 1}, "rnn: unknown field 'foo', wanted one of seed, .*"),
        ("rnn", {"steps": 0}, "rnn: steps must be at least 1, got 0"),
    ],
    ids=["tutorial", "field", "value"],
)
def test_a_small_case_that_there_is_not_is_refused_in_one_line(name: str, fields: dict[str, Any], line: str) -> None:
    with pytest.raises(CaseError, match=f"^{line}$"):
        quick(name, **fields)


@pytest.mark.parametrize("name", [name for name in TUTORIALS if issubclass(load(name).Case, ExactableCase)])
def test_a_small_case_is_exact_if_asked(name: str) -> None:
    case = quick(name, arithmetic="exact")
    prove(case)  # no sum rounds
    assert case.is_exact
