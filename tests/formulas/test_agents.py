"""Twins of the agents, the language model and the pipeline against oracles that share nothing with them.

A run has the bits of its twin by other tests. The twin and the run use the same helpers, and a mistake in one of these
is in both: tests/formulas/ has every quantity of the trace from its formula alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import strategies as st

import reference.pipeline
import tests.formulas.pipeline
from reference import load
from reference.trace import Case
from tests.properties.cases import EXACT, NATURAL
from tests.properties.properties import examples

MKLDNN: bool = torch._C._get_mkldnn_enabled()

# A text other than the shipped one, and so short that a batch goes on at its beginning.
SHORT = str(Path(__file__).parents[1] / "formulas" / "__init__.py")
FIELDS_WITHOUT_A_FORMULA = {"timeout", "rpc_threads", "device", "transfer"}

_CAR = {"env": "MountainCar-v0", "n_steps": 210, "steps": 1}  # a start lasts 200 steps there, and each costs 1
_EPISODES = {"steps": 2, "n_steps": 40, "observers": 2}
_MLP = {"model": "mlp", "steps": 2, "batch_size": 7, "num_split": 3, "image_w": 2, "image_h": 3, "num_classes": 4}
_TINY = {"batch_size": 5, "num_split": 2, "image_w": 16, "image_h": 34, "num_classes": 3}

# Rows named "many": roles, steps and sizes of two digits, so that one name begins with another's, and rates with which
# numbers leave [-6, 6]. Rows named "large" have tensors of more than 2**14 elements.
_MANY = {"observers": 11, "steps": 12, "n_steps": 13, "lr": 1.5, "seed": 11}
# More observers than a signed byte counts.
_CROWD = {"observers": 130, "steps": 1, "n_steps": 2}
# With these seeds the last episode's pole stands for 500 steps, after which its environment ends.
STANDING: Mapping[str, Mapping[str, Any]] = {
    "reinforce": {"steps": 9, "seed": 53},
    "batch_reinforce": {"steps": 7, "seed": 78, "observers": 1, "batch": False, "gamma": 0.99},
}
_LONG = {"lr": 0.2, "dropout": 0.0, "n_steps": 520, "dtype": "float64"}

TABLE: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "reinforce": {
        "episodes": _EPISODES,
        "others": {**_EPISODES, "observers": 3, "gamma": 0.5, "lr": 0.1, "dropout": 0.2, "dtype": "float64", "seed": 9},
        "ends": {**_EPISODES, "steps": 3, "record": "ends", "dropout": 0.0},
        "one-step": {"steps": 2, "n_steps": 1},
        "root": {"steps": 2, "observers": 1, "n_steps": 17, "gamma": 0.1875, "dtype": "float32", "lr": 0.0},
        "car": {**_CAR, "gamma": 0.95},
        "many": _MANY,
        "crowd": _CROWD,
    },
    "batch_reinforce": {
        "episodes": {**_EPISODES, "gamma": 0.9},
        "alone": {**_EPISODES, "batch": False, "gamma": 0.9},
        "others": {**_EPISODES, "observers": 3, "lr": 0.1, "dropout": 0.2, "dtype": "float64", "seed": 9},
        "ends": {**_EPISODES, "steps": 3, "record": "ends", "dropout": 0.0, "batch": False},
        "one-step": {"steps": 2, "n_steps": 1, "observers": 1},
        "car": {**_CAR, "gamma": 0.95},
        "many": {**_MANY, "gamma": 0.9},
        "crowd": _CROWD,
    },
    "rnn": {
        "epochs": {"steps": 7, "batches": 3},
        "others": {
            "steps": 3,
            "seed": 9,
            "batch_size": 4,
            "ninp": 5,
            "nhid": 2,
            "lr": 0.5,
            "sequence": 3,
            "nlayers": 2,
        },
        "no-dropout": {"steps": 3, "dropout": 0.0, "dtype": "float64"},
        "all-dropped": {"steps": 2, "dropout": 1.0, "nlayers": 1},
        "ends": {"steps": 3, "record": "ends", "dtype": "float64"},
        "ring": {"steps": 3, "text": SHORT, "sequence": 100, "batch_size": 2, "nlayers": 1, "nhid": 1},
        "many": {"steps": 13, "batches": 12, "sequence": 11, "batch_size": 11, "nlayers": 2, "nhid": 11, "lr": 20.0}
        | {"seed": 11},
        "deep": {"steps": 1, "nlayers": 11, "sequence": 2},
        "large": {"steps": 2, "ninp": 401, "nhid": 65, "nlayers": 1, "lr": 20.0},
    },
    "pipeline": {
        "parts": _MLP,
        "others": {**_MLP, "depth": 3, "width": 5, "lr": 0.3, "num_split": 7, "dtype": "float64", "seed": 9},
        "exact": {**_MLP, "dtype": "float64", "arithmetic": "exact", "lr": 0.125, "width": 3},
        "ends": {**_MLP, "steps": 3, "record": "ends"},
        "many": {"model": "mlp", "steps": 12, "batch_size": 13, "num_split": 11, "depth": 2, "width": 64, "lr": 1.5}
        | {"image_w": 11, "image_h": 12, "num_classes": 300, "seed": 11},
        "deep": {**_MLP, "depth": 11},
        "crowd": {**_MLP, "steps": 1, "batch_size": 130, "num_split": 130, "rpc_threads": 256},
        "steep": {**_MLP, "steps": 4, "lr": 5.0},
        "resnet50": {**_TINY, "steps": 1},
        "resnet50-ends": {**_TINY, "steps": 2, "record": "ends"},
        "resnet50-steep": {**_TINY, "steps": 2, "lr": 20.0},
    },
}


@contextmanager
def plain_kernels(lstm: bool) -> Iterator[None]:
    """One thread per operator; and torch's own LSTM also in float32: oneDNN's adds in another order."""
    threads, flags = torch.get_num_threads(), torch.backends.mkldnn.set_flags(MKLDNN and not lstm)
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.backends.mkldnn.set_flags(flags[0])


def compare(tutorial: str, numbers: Mapping[str, Any]) -> Mapping[str, torch.Tensor]:
    """Compare every tensor of the twin's trace: dtype, shape and bits, except a zero's sign. Returns the trace."""
    twin, formula = load(tutorial), import_module(f"tests.formulas.{tutorial}")
    case = twin.Case(**numbers)
    with plain_kernels(lstm=tutorial == "rnn"):
        got: Mapping[str, torch.Tensor] = twin.train_locally(case).tensors
        wanted = formula.trace(SimpleNamespace(**asdict(case)))
    assert sorted(got) == sorted(wanted)
    for name in sorted(got):
        torch.testing.assert_close(got[name], wanted[name], rtol=0, atol=0, msg=f"{name}: {{}}".format)
    return got


def _marks(name: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.long] if name.startswith("resnet50") else []


@pytest.mark.parametrize(
    ("tutorial", "name"),
    [pytest.param(tutorial, name, marks=_marks(name)) for tutorial, cases in TABLE.items() for name in cases],
)
def test_a_twin_computes_the_formula(tutorial: str, name: str) -> None:
    """All numbers are finite, because infinities would be equal whatever they come from."""
    trace = compare(tutorial, TABLE[tutorial][name])
    assert [tensor for tensor, values in trace.items() if not values.isfinite().all()] == []


@pytest.mark.long
@pytest.mark.parametrize("tutorial", ["reinforce", "batch_reinforce"])
def test_a_twin_computes_the_formula_of_a_pole_that_stands(tutorial: str) -> None:
    numbers = STANDING[tutorial]
    got = compare(tutorial, {**_LONG, **numbers})
    assert got[f"{numbers['steps'] - 1:04d}/reward/episode"] == 500


_ANY = {"seed": st.integers(0, 2**63 - 1), "record": st.sampled_from(("every", "ends"))}
_NATURAL = {**_ANY, "dtype": st.sampled_from(("float32", "float64"))}
# More steps than most starts of a pole last.
_AGENTS = {
    "n_steps": st.integers(1, 30),
    "gamma": st.floats(0, 1),
    "lr": st.floats(0, 0.1),
    "dropout": st.floats(0, 0.99),
}


def computes_the_formula(cases: st.SearchStrategy[Case]) -> Callable[..., None]:
    """Return the property that each of these cases has the trace of its formula."""

    @examples(12, case=cases)
    def test(case: Case) -> None:
        compare(case.tutorial(), asdict(case))

    return test


def small(tutorial: str, **more: st.SearchStrategy[Any]) -> st.SearchStrategy[Case]:
    return st.builds(replace, NATURAL[tutorial], **_NATURAL, **more)


test_reinforce_whatever_the_case = computes_the_formula(small("reinforce", **_AGENTS))
test_batch_reinforce_whatever_the_case = computes_the_formula(small("batch_reinforce", **_AGENTS))
test_rnn_whatever_the_case = computes_the_formula(small("rnn", dropout=st.floats(0, 1), lr=st.floats(0, 1)))
test_pipeline_whatever_the_case = computes_the_formula(
    small("pipeline") | st.builds(replace, EXACT["pipeline"], **_ANY)
)


def test_rnn_numbers_bytes_of_every_kind(tmp_path: Path) -> None:
    """All 256 bytes are tokens, including some that are no UTF-8, and both kinds of line ends."""
    (tmp_path / "text").write_bytes("Ein Tor, größer als 2 €\r\n".encode() + bytes(range(255, -1, -1)))
    compare("rnn", {"text": str(tmp_path / "text"), "steps": 3, "sequence": 50, "nlayers": 1})


def test_both_halves_of_a_resnet50_are_drawn_by_the_formula() -> None:
    case = reference.pipeline.Case(num_classes=11, seed=23)
    halves = [reference.pipeline.make_shard(case, half) for half in (1, 2)]
    got = {f"shard{half}.{name}": each for half, of in enumerate(halves, 1) for name, each in of.state_dict().items()}
    parameters, buffers, _ = tests.formulas.pipeline.resnet(SimpleNamespace(**asdict(case)))
    wanted = parameters | buffers
    assert sorted(got) == sorted(wanted)
    assert [name for name in got if not torch.equal(got[name], wanted[name])] == []


@pytest.mark.parametrize("tutorial", TABLE)
def test_every_option_has_two_values_in_the_table(tutorial: str) -> None:
    """An option without a row of its own has been checked by no formula."""
    kind = load(tutorial).Case
    rows = [kind(**numbers) for numbers in TABLE[tutorial].values()]
    options = {item.name for item in fields(kind)} - FIELDS_WITHOUT_A_FORMULA
    assert [option for option in options if len({getattr(row, option) for row in rows}) < 2] == []
