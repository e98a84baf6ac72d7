"""Data flows by RRef, and a meter sees each payload that takes another way."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest
import torch
import torch.distributed.rpc as rpc

from reference import rref_dataflow
from reference.outcome import Raised, RoleFailed
from reference.rref_dataflow import Case, roles, run_coordinator
from reference.world import launch
from tests.support.runs import launch_and_wait


def take_a_detour(case: Case) -> object:
    """The form that the tutorial avoids: a coordinator that fetches the data itself and sends it on."""
    remote = rpc.remote

    def diverted(to: str, function: Callable[..., object], args: tuple[Any, ...]) -> object:
        if function is rref_dataflow.add:
            return remote("worker3", torch.add, args=tuple(rref.to_here() for rref in args))
        return remote(to, function, args=args)

    with patch.object(rpc, "remote", diverted):
        return run_coordinator(case)


def test_a_payload_through_the_coordinator_is_noticed() -> None:
    case = Case(steps=1)
    detour = roles(case)  # with the options of RPC, which a plain mapping has not
    detour["worker0"] = partial(take_a_detour, case)
    with launch(detour) as world:
        outcome = world.wait()["worker0"]
    assert isinstance(outcome, Raised)
    assert outcome.type == "reference.rref_dataflow.Misrouted"
    assert outcome.message == "step 0: worker0 received 2 payloads, wanted 0"


def test_shared_memory_is_refused_and_not_taken_for_silence() -> None:
    options = {"_transports": ["shm", "uv"], "_channels": ["cma", "basic"]}
    outcome = launch_and_wait(Case(steps=1, timeout=1), options=options)["worker0"]
    assert isinstance(outcome, Raised)
    assert outcome.type == "reference.rref_dataflow.NotMeasured"
    assert "wanted about 2097152: is this TCP?" in outcome.message


def keep_the_first_step_of_two() -> None:
    """Runs on a role: nothing comes for the second step."""
    rref_dataflow.keep(rpc.RRef(torch.ones(2)))
    rref_dataflow.note({})
    rref_dataflow.run_keeper(Case(steps=2, timeout=0.05))


def test_a_later_step_that_does_not_come_is_named() -> None:
    with launch(["alone"]) as world, pytest.raises(RoleFailed) as caught:
        world.call("alone", keep_the_first_step_of_two, deadline=20)
    assert isinstance(caught.value.outcome, Raised)
    assert caught.value.outcome.type == "reference.rref_dataflow.FlowStopped"
    assert caught.value.outcome.message == "step 1: nothing for 0.05 s"
