"""Natural cases in float64: everything is computed in float64, so the bound is as fine as float64 rounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch

from reference import TUTORIALS
from reference.natural import natural_bound
from reference.noticed import result_of
from reference.reordering import REORDERED, Reordered, reordered
from reference.trace import Trace
from reference.verify import tutorial, twins_for

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
# One element is off by this part of its tensor's scale: 4,500 roundings.
ERROR = 1e-12


class Watched(Reordered):
    """Keeps the dtypes of what is rounded. Small integers, such as an optimizer's count of steps, are not."""

    def __init__(self) -> None:
        super().__init__(0)
        self.rounded: set[torch.dtype] = set()

    def _move(self, result: Any) -> None:
        if isinstance(result, torch.Tensor) and result.is_floating_point() and (result.bfloat16() != result).any():
            self.rounded.add(result.dtype)
        super()._move(result)


def off(tensor: torch.Tensor) -> torch.Tensor:
    """Spoil the element in the middle."""
    changed = tensor.clone()
    changed.view(-1)[tensor.numel() // 2] += ERROR * tensor.square().mean().sqrt()
    return changed


def test_every_tutorial_with_a_dtype_has_its_case_here() -> None:
    assert set(SMALL) == {name for name in TUTORIALS if hasattr(tutorial(name).Case(), "dtype")}


@pytest.mark.parametrize("name", SMALL)
def test_nothing_is_rounded_to_float32_in_float64(name: str) -> None:
    module = tutorial(name)
    with Watched() as watched:
        module.train_locally(module.Case(dtype="float64", **SMALL[name]))
    assert watched.rounded == {torch.float64}


@pytest.mark.parametrize("name", SMALL)
def test_an_error_of_1e_12_in_any_last_parameter_is_outside(name: str) -> None:
    """And a run in another order is within."""
    module = tutorial(name)
    train, case = module.train_locally, module.Case(dtype="float64", **SMALL[name])
    plain = train(case)
    others, exact = twins_for(plain, plain, train)
    twins = [*others]
    right = natural_bound(reordered(train, case, plain, REORDERED), twins, exact)
    assert right.verdict == "within bound", str(right)
    last = {name: plain.tensors[name] for name in result_of(plain.tensors) if name in right.ratios}
    wrong = Trace(case, {**plain.tensors, **{name: off(tensor) for name, tensor in last.items()}})
    ratios = natural_bound(wrong, twins, exact).ratios
    assert last
    assert [name for name in last if ratios[name] <= 1] == []
