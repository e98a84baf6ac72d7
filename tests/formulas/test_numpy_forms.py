"""The programs of examples/numpy on further cases, and an agent's in other forms: within the bound.

tests/reference has the cases of the suite (test_conform.py), other forms (test_twin_judge.py) and wrong ones
(test_explain.py).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reference import batch_parameter_server, parameter_server, reinforce
from reference.trace import Case
from tests.support.implementations import Implementation

Numbers = np.ndarray[Any, Any]

_IMAGES: dict[str, Any] = {"image_w": 8, "image_h": 8, "batch_size": 4, "num_classes": 10}


@pytest.fixture(autouse=True)
def programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "examples" / "numpy"))


def verdict(case: Case, folder: Path) -> tuple[str, str]:
    """Judge the tutorial's program."""
    train = import_module(case.tutorial()).train
    program = Implementation(function=lambda described, given: train(described["case"], given))
    return program.judged(case, folder)[:2]


@pytest.mark.long
@pytest.mark.timeout(1500)  # for the agent 17 twins of fifteen episodes: half a minute of a core
@pytest.mark.parametrize(
    "case",
    [
        parameter_server.Case(seed=0),
        *(batch_parameter_server.Case(model=model, **_IMAGES, seed=1) for model in ("mlp", "convnet")),
        reinforce.Case(seed=2, steps=15),
    ],
    ids=lambda case: f"{case.tutorial()}-{getattr(case, 'model', '')}{case.seed}",
)
def test_a_program_is_within_the_bound_of_a_case_of_the_published_length(case: Case, tmp_path: Path) -> None:
    found, text = verdict(case, tmp_path)
    assert found in ("equal", "within bound"), text


# Mean and deviation of an agent's returns in other forms. With so low a discount nearly all returns are 10/9, and their
# deviation is small: the rounding of their mean, common to all weights, is then most of a run's error.


def loop(terms: Numbers) -> Any:
    return functools.reduce(np.add, terms)


def backwards(terms: Numbers) -> Any:
    return loop(terms[::-1])


def two_pass(flat: Numbers, add: Callable[[Numbers], Any]) -> Numbers:
    """Take the mean of the squared distances from the mean."""
    away = flat - add(flat) / flat.dtype.type(len(flat))
    return np.asarray(away / (np.sqrt(add(away * away) / flat.dtype.type(len(flat))) + _eps(flat)))


def one_pass(flat: Numbers, add: Callable[[Numbers], Any]) -> Numbers:
    """Take E[G²] - E[G]², which cancels where the deviation is much less than the mean."""
    count = flat.dtype.type(len(flat))
    mean = add(flat) / count
    return np.asarray((flat - mean) / (np.sqrt(add(flat * flat) / count - mean * mean) + _eps(flat)))


def _eps(flat: Numbers) -> Any:
    return flat.dtype.type(np.finfo(np.float32).eps)


@pytest.mark.parametrize(
    ("seed", "fields", "form", "add"),
    [
        (3, {}, two_pass, backwards),
        pytest.param(2, {"dtype": "float64"}, two_pass, backwards, marks=pytest.mark.long),
        (1, {"gamma": 0.99}, one_pass, loop),
    ],
    ids=["backwards", "float64-backwards", "one pass"],
)
def test_an_agents_program_is_within_the_bound_in_any_form(
    seed: int, fields: dict[str, Any], form: Any, add: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def normalized(returns: list[list[float]], dtype: Any) -> list[Numbers]:
        flat = np.concatenate([np.array(each, dtype) for each in returns])
        return np.split(form(flat, add), np.cumsum([len(each) for each in returns])[:-1])

    monkeypatch.setattr(import_module("reinforce"), "normalized", normalized)
    found, text = verdict(reinforce.Case(**{"steps": 1, "gamma": 0.1, "seed": seed, **fields}), tmp_path)
    assert found == "within bound", text
