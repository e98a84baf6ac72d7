"""The pipeline against its twin, bit for bit, for every number of micro-batches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.distributed.autograd as dist_autograd

from reference.outcome import Raised
from reference.pipeline import WORKERS, Case, roles, train_locally
from reference.trace import CaseError, Trace, compare
from reference.verify import judge
from reference.world import World
from tests.support.gpu import needs_gpu
from tests.support.runs import against_twin, launch_and_wait, run, run_in, twin

SMALL: dict[str, Any] = {"batch_size": 16, "image_w": 32, "image_h": 32, "num_classes": 10}
MLP: dict[str, Any] = {"model": "mlp", "batch_size": 32, "image_w": 4, "image_h": 4, "num_classes": 10}


@pytest.mark.long
@pytest.mark.parametrize("num_split", [1, 8])
def test_resnet50_equals_its_twin(num_split: int) -> None:
    """Parameters, gradients and batch norm's statistics in float32, for one and for several micro-batches."""
    trace = run(Case(steps=2, num_split=num_split, **SMALL))
    comparison = against_twin(trace)
    assert comparison.equal, str(comparison)
    assert len(trace.tensors) == 161 + 2 * (1 + 161 + 161 + 159)


pytestmark = pytest.mark.world("master", *WORKERS, options={"num_worker_threads": 64})


@pytest.mark.parametrize(("num_split", "dtype", "record"), [(7, "float64", "every"), (32, "float32", "ends")])
def test_mlp_equals_its_twin(world: World, num_split: int, dtype: str, record: str) -> None:
    """S4.3: as many micro-batches as asked for, also where they are not alike. tests/properties has cases of fewer."""
    trace = run_in(world, Case(num_split=num_split, depth=3, dtype=dtype, record=record, **MLP))
    assert against_twin(trace).equal


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"num_split": 17, "batch_size": 16}, "num_split must be at most batch_size, 16, got 17"),
        ({"num_split": 8, "rpc_threads": 8}, "rpc_threads must be more than num_split, 8, got 8"),
        (
            {"arithmetic": "exact", "dtype": "float64", "depth": 2, "lr": 0.125},
            "model must be 'mlp' in exact arithmetic, got 'resnet50'",
        ),
        ({"width": 3}, "width must be 8 where model is 'resnet50', got 3"),
        ({"transfer": "direct"}, "transfer must be 'cpu' where device is 'cpu', got 'direct'"),
        (
            {"num_split": 16, "batch_size": 16, "image_w": 32, "image_h": 32},
            "num_split must be at most 8: batch norm needs two values, and images this small have one, got 16",
        ),
    ],
)
def test_impossible_cases_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(CaseError) as caught:
        Case(**values)
    assert str(caught.value) == f"pipeline: {message}"


@pytest.mark.parametrize("wider", ["image_w", "image_h"])
def test_a_micro_batch_of_one_image_is_accepted_if_batch_norm_has_two_values(wider: str) -> None:
    assert Case(**{**SMALL, "num_split": 16, wider: 33}).num_split == 16


def test_the_roles_have_the_cases_threads_and_timeout() -> None:
    played = roles(Case(rpc_threads=20, timeout=7))
    assert played.options == {"num_worker_threads": 20, "rpc_timeout": 7.0}
    assert played.each == {}


def skip_the_backward_pass(role: str) -> None:
    """A ``before``: no gradient ever comes."""
    dist_autograd.backward = lambda *_: None  # type: ignore[attr-defined]


def test_a_shard_without_gradients_says_so_before_the_masters_call_ends() -> None:
    master = launch_and_wait(Case(timeout=2, **MLP), before=skip_the_backward_pass)["master"]
    assert isinstance(master, Raised)
    assert "had no gradient 2 s after the backward pass" in master.message


def test_a_direct_transfer_goes_from_the_first_workers_gpu_to_the_second_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second worker fetches, so the map is its own. This machine need not have GPUs."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    played = roles(Case(device="cuda", transfer="direct"))
    assert played.each == {"worker2": {"device_maps": {"worker1": {"cuda:1": "cuda:0"}}}}


@needs_gpu
@pytest.mark.parametrize("transfer", ["cpu", "direct"])
def test_it_equals_its_twin_on_gpus(transfer: str) -> None:
    trace = run(Case(steps=2, num_split=4, device="cuda", transfer=transfer, **SMALL), deadline=170)
    assert against_twin(trace).equal


@needs_gpu
@pytest.mark.parametrize("transfer", ["cpu", "direct"])
def test_an_exact_case_on_gpus_equals_its_twin_on_the_cpu(transfer: str) -> None:
    case = Case.exact(device="cuda", transfer=transfer)
    trace = run(case, deadline=170)
    assert compare(trace, twin(replace(case, device="cpu", transfer="cpu"))).equal


@needs_gpu
@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "within bound"), (1.0 + 2**-10, "wrong")])
def test_a_run_with_other_bits_than_the_gpus_is_judged_by_its_bound(factor: float, verdict: str) -> None:
    """The run is the twin on the CPU, whose kernels are others."""
    case = Case(num_split=4, device="cuda", **MLP)
    tensors = train_locally(replace(case, device="cpu")).tensors
    tensors["0002/parameter/shard1.seq.1.weight"] *= factor
    assert judge(Trace(case, tensors), train_locally)[1] == verdict
