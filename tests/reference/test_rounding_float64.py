"""Natural cases in float64: only operators that are reordered round, so the bound is as fine as float64 rounds.

That no number becomes a float32 is a fact of tests/formulas, whose bits those of such cases are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from reference import TUTORIALS, load
from reference.rounding.bound import result_of
from reference.rounding.reordering import REORDERED, reordered, twins_for
from reference.trace import Trace
from tests.support.reordering import Watching
from tests.support.runs import rounding_bound

_IMAGES = {"image_w": 4, "image_h": 4, "batch_size": 2, "num_classes": 2, "trainers": 2, "steps": 2}
_PIPELINE = {"model": "mlp", "batch_size": 4, "num_split": 2, "image_w": 4, "image_h": 4, "num_classes": 3, "steps": 2}
_TOKENS = {"sequence": 3, "batch_size": 2, "ninp": 4, "nhid": 4, "nlayers": 2, "steps": 2}
_BAGS = {"rows": 6, "dim": 3, "hidden": 4, "num_classes": 3, "batch_size": 5, "bag": 3, "steps": 3}
SMALL: Mapping[str, Mapping[str, Any]] = {
    "dist_autograd": {"steps": 2},
    "parameter_server": {"steps": 3},
    "batch_parameter_server": {"model": "convnet", **_IMAGES},
    "sharded_parameter_server": {"model": "mlp", **_IMAGES},
    "reinforce": {"steps": 2, "n_steps": 10},
    "batch_reinforce": {"steps": 2, "n_steps": 10},
    "rnn": _TOKENS,
    "pipeline": _PIPELINE,
    "hybrid_ddp": _BAGS,
}
# What the cases of tutorials compute in another form.
_LARGE = {"model": "resnet50", "steps": 1, "batch_size": 2, "image_w": 32, "image_h": 32}
FORMS: list[Any] = [
    *((name, {}) for name in SMALL),
    ("parameter_server", {"outputs": 3}),
    ("batch_parameter_server", {"model": "mlp"}),
    ("rnn", {"dropout": 0.0}),
    ("batch_reinforce", {"batch": False}),
    ("hybrid_ddp", {"trainers": 3, "accumulation": "allreduce"}),
    pytest.param("batch_parameter_server", {**_LARGE, "trainers": 1}, marks=pytest.mark.long),
    pytest.param("pipeline", {**_LARGE, "num_split": 1}, marks=pytest.mark.long),
]
# One element is off by this part of its tensor's scale: 4,500 roundings.
ERROR = 1e-12


class Outside(TorchDispatchMode):
    """Keeps the rounded numbers that enter from outside torch's operators: no order of a twin's sums changes those."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.made: dict[int, Any] = {}  # storages, kept so that none gets another's number
        self.entered: list[torch.Tensor] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        self.entered += [each for each in _floats((args, kwargs)) if self._is_new(each) and _rounded(each)]
        result = func(*args, **(kwargs or {}))
        for each in _floats(result):
            self._is_new(each)
        return result

    def _is_new(self, tensor: torch.Tensor) -> bool:
        storage = tensor.untyped_storage()
        new = storage._cdata not in self.made
        self.made[storage._cdata] = storage
        return new


def _floats(tree: Any) -> Iterator[torch.Tensor]:
    return (each for each in tree_leaves(tree) if isinstance(each, torch.Tensor) and each.is_floating_point())


def _rounded(tensor: torch.Tensor) -> bool:
    return bool((tensor.bfloat16() != tensor).any())


def off(tensor: torch.Tensor) -> torch.Tensor:
    """Spoil the element in the middle."""
    changed = tensor.clone()
    changed.view(-1)[tensor.numel() // 2] += ERROR * tensor.square().mean().sqrt()
    return changed


def test_every_tutorial_with_a_dtype_has_its_case_here() -> None:
    assert set(SMALL) == {name for name in TUTORIALS if hasattr(load(name).Case(), "dtype")}


@pytest.mark.parametrize(("name", "fields"), FORMS)
def test_no_operator_of_a_tutorial_is_unknown_to_other_orders(name: str, fields: Mapping[str, Any]) -> None:
    module = load(name)
    with Watching(0) as mode:
        module.train_locally(module.Case(**{**SMALL[name], **fields, "dtype": "float64"}))
    assert {op for op in mode.unknown if not op.startswith("profiler.")} == set()


# With these the returns of eight steps are sums of few powers of two, which do not round.
_UNROUNDED = {"gamma": 0.5, "n_steps": 8}


@pytest.mark.parametrize("name", SMALL)
def test_what_comes_from_outside_torchs_operators_is_not_rounded(name: str) -> None:
    """The exceptions are states, which an environment gives in float32, and the running reward, which trains nothing.

    An agent's returns are discounted outside (`cartpole.discounted`): other forms of that are within the bound.
    """
    module = load(name)
    case = module.Case(dtype="float64", **{**SMALL[name], **(_UNROUNDED if "n_steps" in SMALL[name] else {})})
    with Outside() as mode:
        trace = module.train_locally(case)
    running = [tensor.item() for key, tensor in trace.tensors.items() if key.endswith("reward/running")]
    assert mode.made
    entered = [each for each in mode.entered if each.dtype == torch.float64]
    assert [each for each in entered if each.numel() > 1 or each.item() not in running] == []


def test_all_twins_but_the_first_of_a_run_on_a_gpu_are_on_the_cpu() -> None:
    """Its own twin, which is the first, is on the GPU."""
    module = load("pipeline")
    case = module.Case(device="cuda", transfer="direct", model="mlp", batch_size=4)
    plain = Trace(case, {})
    others, exact = twins_for(plain, plain, lambda case, run: Trace(case, {}))
    own, *further = others
    assert own is plain
    cases: list[Any] = [each.case for each in (*further, exact)]
    assert {(each.device, each.transfer) for each in cases} == {("cpu", "cpu")}


@pytest.mark.parametrize("name", SMALL)
def test_an_error_of_1e_12_in_any_last_parameter_is_outside(name: str) -> None:
    """A run in another order is within the bound."""
    module = load(name)
    train, case = module.train_locally, module.Case(dtype="float64", **SMALL[name])
    plain = train(case)
    others, exact = twins_for(plain, plain, train)
    twins = [*others]
    right = rounding_bound(reordered(train, case, plain, REORDERED), twins, exact)
    assert right.verdict == "within bound", str(right)
    last = {name: plain.tensors[name] for name in result_of(plain.tensors) if name in right.ratios}
    wrong = Trace(case, {**plain.tensors, **{name: off(tensor) for name, tensor in last.items()}})
    ratios = rounding_bound(wrong, twins, exact).ratios
    assert last
    assert [name for name in last if ratios[name] <= 1] == []
