"""Every tutorial's twin against its formula: the whole trace.

A run has the bits of its twin by other tests. The twin and the run use the same helpers, and a mistake in one of these
is in both; the formulas share nothing with either.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import pytest
import torch
from hypothesis import strategies as st

from reference import (
    TUTORIALS,
    batch_parameter_server,
    batch_reinforce,
    dist_autograd,
    hybrid_ddp,
    load,
    parameter_server,
    pipeline,
    reinforce,
    rnn,
    rpc_basics,
    rref_dataflow,
    sharded_parameter_server,
)
from reference.trace import Case, Trace
from reference.training.models import PARAMETERS, build_model
from reference.training.placement import partition, shards
from tests.formulas import batch_parameter_server as batch_formula
from tests.formulas import pipeline as pipeline_formula
from tests.formulas.common import Tensors
from tests.formulas.sharded_parameter_server import owners
from tests.properties.cases import EXACT, NATURAL
from tests.properties.properties import examples

MKLDNN: bool = torch._C._get_mkldnn_enabled()


@contextmanager
def plain_kernels(lstm: bool) -> Iterator[None]:
    """One thread per operator, because their number decides the order of sums; and torch's own LSTM also in float32:
    oneDNN's adds in another order."""
    threads, flags = torch.get_num_threads(), torch.backends.mkldnn.set_flags(MKLDNN and not lstm)
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.backends.mkldnn.set_flags(flags[0])


def events(case: Any) -> Tensors:
    """Make up the order of events, which only a run can know; the case's seed decides it."""
    chance = random.Random(case.seed)
    if isinstance(case, parameter_server.Case):
        turns = [worker for worker in range(case.workers) for _ in range(2 * case.steps)]
        chance.shuffle(turns)
        order = [(turns[:place].count(worker) % 2, worker) for place, worker in enumerate(turns)]
        return {"order/events": torch.tensor(order)}
    if getattr(case, "accumulation", "rank") == "arrival":
        ranks = range(case.trainers)
        return {f"{step:04d}/arrivals": torch.tensor(chance.sample(ranks, case.trainers)) for step in range(case.steps)}
    return {}


def assert_formula(case: Case) -> Mapping[str, torch.Tensor]:
    """Compare the twin's trace with the formula's (names, dtypes, shapes and numbers), and return it."""
    given, tutorial = events(case), case.tutorial()
    with plain_kernels(lstm=tutorial == "rnn"):
        got: Mapping[str, torch.Tensor] = load(tutorial).train_locally(case, Trace(case, given)).tensors
        wanted = import_module(f"tests.formulas.{tutorial}").trace(SimpleNamespace(**asdict(case)), given)
    assert sorted(got) == sorted(wanted)
    for name, tensor in got.items():
        assert tensor.dtype == wanted[name].dtype, name
        assert tensor.shape == wanted[name].shape, name
        assert torch.equal(tensor, wanted[name]), f"{name}: {tensor} is not {wanted[name]}"
    return got


_IMAGES: dict[str, Any] = {"batch_size": 3, "image_w": 5, "image_h": 4, "num_classes": 3, "lr": 0.1}
_MLP, _CONVNET = {**_IMAGES, "model": "mlp"}, {**_IMAGES, "model": "convnet"}
_EXACT: dict[str, Any] = {"arithmetic": "exact", "dtype": "float64", "lr": 0.5}
_BAGS: dict[str, Any] = {"rows": 6, "dim": 3, "hidden": 4, "num_classes": 3, "batch_size": 5, "bag": 3, "steps": 3}
_CAR: dict[str, Any] = {"env": "MountainCar-v0", "n_steps": 210, "steps": 1}  # a start lasts 200, and each costs 1
_EPISODES: dict[str, Any] = {"steps": 2, "n_steps": 40, "observers": 2}
_OTHERS: dict[str, Any] = {**_EPISODES, "observers": 3, "lr": 0.1, "dropout": 0.2, "dtype": "float64", "seed": 9}
_HALVES: dict[str, Any] = {"model": "mlp", "steps": 2, "batch_size": 7, "num_split": 3}
_HALVES |= {"image_w": 2, "image_h": 3, "num_classes": 4}
_RESNET: dict[str, Any] = {"batch_size": 5, "num_split": 2, "image_w": 16, "image_h": 34, "num_classes": 3}

# Rows named "many": eleven roles, so that one name begins with another's; twelve steps; tensors of more than 2**14
# elements; and rates above 1, with which numbers leave [-6, 6]. A mistake that begins beyond small numbers shows there.
# Rows named "crowd" have more than 128 roles; with those of bags the votes for two classes lie about 128, and 256.
_SIDES: dict[str, Any] = {"image_w": 25, "image_h": 29, "num_classes": 300, "batch_size": 11}
_MANY: dict[str, Any] = {"steps": 12, "trainers": 11, "momentum": 1.25}
_MANY_BAGS: dict[str, Any] = {"rows": 250, "dim": 70, "hidden": 13, "num_classes": 300, "batch_size": 11, "bag": 12}
_MANY_EPISODES: dict[str, Any] = {"observers": 11, "steps": 12, "n_steps": 13, "lr": 1.5, "seed": 11}
_MANY_WORDS: dict[str, Any] = {"steps": 13, "batches": 12, "sequence": 11, "batch_size": 11, "nhid": 11}
_MANY_PARTS: dict[str, Any] = {"steps": 12, "batch_size": 13, "num_split": 11, "image_w": 11, "image_h": 12}
_CROWD: dict[str, Any] = {"observers": 130, "steps": 1, "n_steps": 2}
# A text other than the shipped one, and so short that a batch goes on at its beginning.
_SHORT = str(Path(__file__).with_name("__init__.py"))

_ROWS: dict[str, Case] = {
    "rpc_basics": rpc_basics.Case(steps=2),
    "rpc_basics-larger": rpc_basics.Case(size=17, record="ends"),
    "rref_dataflow": rref_dataflow.Case(steps=2, side=128, record="ends"),
    "dist_autograd": dist_autograd.Case(),
    "dist_autograd-float64": dist_autograd.Case(contexts=3, dtype="float64", lr=0.3, side=2),
    "dist_autograd-exact": dist_autograd.Case(steps=2, **_EXACT),
    "parameter_server": parameter_server.Case(steps=4),
    "parameter_server-waiting": parameter_server.Case(steps=4, staleness=0, outputs=2),
    "parameter_server-workers": parameter_server.Case(steps=4, workers=3, lr=0.2),
    "parameter_server-float64": parameter_server.Case(steps=3, workers=2, dtype="float64", record="ends"),
    "parameter_server-exact": parameter_server.Case(steps=3, workers=3, **_EXACT),
    "batch_parameter_server-mlp": batch_parameter_server.Case(steps=3, trainers=3, **_MLP),
    "batch_parameter_server-convnet": batch_parameter_server.Case(steps=3, trainers=3, **_CONVNET),
    "batch_parameter_server-float64": batch_parameter_server.Case(steps=2, trainers=2, dtype="float64", **_CONVNET),
    "batch_parameter_server-one": batch_parameter_server.Case(steps=2, trainers=1, record="ends", **_CONVNET),
    "batch_parameter_server-arrival": batch_parameter_server.Case(steps=3, accumulation="arrival", **_CONVNET),
    "batch_parameter_server-larger": batch_parameter_server.Case(model="convnet", steps=2, image_w=16, image_h=12),
    "batch_parameter_server-exact": batch_parameter_server.Case(
        **{**_MLP, **_EXACT, "steps": 2, "trainers": 4, "momentum": 0.5}
    ),
    "sharded_parameter_server": sharded_parameter_server.Case(servers=3, momentum=0.5, **_CONVNET),
    "hybrid_ddp": hybrid_ddp.Case(trainers=3, **_BAGS),
    "hybrid_ddp-allreduce": hybrid_ddp.Case(trainers=3, accumulation="allreduce", **_BAGS),
    "hybrid_ddp-float64": hybrid_ddp.Case(dtype="float64", record="ends", **_BAGS),
    "hybrid_ddp-larger": hybrid_ddp.Case(steps=2),
    "hybrid_ddp-exact": hybrid_ddp.Case(**{**_BAGS, **_EXACT, "steps": 2, "trainers": 4}),
    "rpc_basics-many": rpc_basics.Case(steps=12, size=130),
    "rref_dataflow-many": rref_dataflow.Case(steps=12, side=129),
    "rref_dataflow-million": rref_dataflow.Case(steps=1, side=1025),
    "dist_autograd-many": dist_autograd.Case(steps=12, contexts=11, side=130, lr=0.01, record="ends"),
    "dist_autograd-steep": dist_autograd.Case(steps=3, lr=1.5),
    "dist_autograd-thousand": dist_autograd.Case(steps=1001, side=1, contexts=1, lr=1e-4),
    "parameter_server-many": parameter_server.Case(
        steps=12, workers=11, batch_size=300, inputs=150, outputs=120, lr=1.5
    ),
    "parameter_server-steep": parameter_server.Case(steps=4, inputs=1500, outputs=11, lr=5.0),
    "batch_parameter_server-many": batch_parameter_server.Case(model="mlp", **{**_MANY, **_SIDES, "lr": 2.5}),
    "batch_parameter_server-many-convnet": batch_parameter_server.Case(
        accumulation="arrival", **_MANY, **{**_CONVNET, "lr": 1.1}
    ),
    "sharded_parameter_server-many": sharded_parameter_server.Case(model="mlp", **{**_MANY, **_SIDES, "lr": 2.5}),
    "sharded_parameter_server-exact": sharded_parameter_server.Case(
        **{**_MLP, **_EXACT, "steps": 2, "trainers": 4, "momentum": 0.5, "record": "ends"}
    ),
    "hybrid_ddp-many": hybrid_ddp.Case(steps=12, trainers=11, **_MANY_BAGS, lr=10.0),
    "hybrid_ddp-rows": hybrid_ddp.Case(steps=2, rows=70_001, dim=1),
    "sharded_parameter_server-ends": sharded_parameter_server.Case(trainers=2, steps=2, record="ends", **_CONVNET),
    "hybrid_ddp-bags": hybrid_ddp.Case(steps=1, rows=50, bag=255, num_classes=2, batch_size=64),
    "hybrid_ddp-larger-bags": hybrid_ddp.Case(steps=1, rows=50, bag=511, num_classes=2, batch_size=64),
    "parameter_server-crowd": parameter_server.Case(steps=1, workers=130, inputs=2, batch_size=1),
    "batch_parameter_server-crowd": batch_parameter_server.Case(
        steps=1, trainers=130, accumulation="arrival", model="mlp", batch_size=2, image_w=4, image_h=4, num_classes=2
    ),
}
# Each with a seed of its own, which another row does not change.
TABLE = {name: replace(case, seed=crc32(name.encode())) for name, case in _ROWS.items()} | {
    "reinforce-episodes": reinforce.Case(**_EPISODES),
    "reinforce-others": reinforce.Case(**_OTHERS, gamma=0.5),
    "reinforce-ends": reinforce.Case(**{**_EPISODES, "steps": 3, "record": "ends", "dropout": 0.0}),
    "reinforce-one-step": reinforce.Case(steps=2, n_steps=1),
    "reinforce-root": reinforce.Case(steps=2, observers=1, n_steps=17, gamma=0.1875, lr=0.0),
    "reinforce-car": reinforce.Case(**_CAR, gamma=0.95),
    "reinforce-many": reinforce.Case(**_MANY_EPISODES),
    "reinforce-crowd": reinforce.Case(**_CROWD),
    "batch_reinforce-episodes": batch_reinforce.Case(**_EPISODES, gamma=0.9),
    "batch_reinforce-alone": batch_reinforce.Case(**_EPISODES, batch=False, gamma=0.9),
    "batch_reinforce-others": batch_reinforce.Case(**_OTHERS),
    "batch_reinforce-ends": batch_reinforce.Case(
        **{**_EPISODES, "steps": 3, "record": "ends", "dropout": 0.0, "batch": False}
    ),
    "batch_reinforce-one-step": batch_reinforce.Case(steps=2, n_steps=1, observers=1),
    "batch_reinforce-car": batch_reinforce.Case(**_CAR, gamma=0.95),
    "batch_reinforce-many": batch_reinforce.Case(**_MANY_EPISODES, gamma=0.9),
    "batch_reinforce-crowd": batch_reinforce.Case(**_CROWD),
    "rnn-epochs": rnn.Case(steps=7, batches=3),
    "rnn-others": rnn.Case(steps=3, seed=9, batch_size=4, ninp=5, nhid=2, lr=0.5, sequence=3, nlayers=2),
    "rnn-no-dropout": rnn.Case(steps=3, dropout=0.0, dtype="float64"),
    "rnn-all-dropped": rnn.Case(steps=2, dropout=1.0, nlayers=1),
    "rnn-ends": rnn.Case(steps=3, record="ends", dtype="float64"),
    "rnn-ring": rnn.Case(steps=3, text=_SHORT, sequence=100, batch_size=2, nlayers=1, nhid=1),
    "rnn-many": rnn.Case(**_MANY_WORDS, nlayers=2, lr=20.0, seed=11),
    "rnn-deep": rnn.Case(steps=1, nlayers=11, sequence=2),
    "rnn-large": rnn.Case(steps=2, ninp=401, nhid=65, nlayers=1, lr=20.0),
    "pipeline-parts": pipeline.Case(**_HALVES),
    "pipeline-others": pipeline.Case(
        **{**_HALVES, "depth": 3, "width": 5, "lr": 0.3, "num_split": 7, "dtype": "float64", "seed": 9}
    ),
    "pipeline-exact": pipeline.Case(**{**_HALVES, **_EXACT, "lr": 0.125, "width": 3}),
    "pipeline-ends": pipeline.Case(**{**_HALVES, "steps": 3, "record": "ends"}),
    "pipeline-many": pipeline.Case(model="mlp", **_MANY_PARTS, depth=2, width=64, lr=1.5, num_classes=300, seed=11),
    "pipeline-deep": pipeline.Case(**_HALVES, depth=11),
    "pipeline-crowd": pipeline.Case(**{**_HALVES, "steps": 1, "batch_size": 130, "num_split": 130, "rpc_threads": 256}),
    "pipeline-steep": pipeline.Case(**{**_HALVES, "steps": 4, "lr": 5.0}),
    "pipeline-resnet50": pipeline.Case(**_RESNET, steps=1),
    "pipeline-resnet50-steep": pipeline.Case(**_RESNET, steps=2, lr=20.0),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * ("resnet50" in name)) for name in TABLE]
)
def test_the_trace_is_the_formulas(name: str) -> None:
    """All numbers are finite, because infinities would be equal whatever they come from."""
    trace = assert_formula(TABLE[name])
    assert [tensor for tensor, values in trace.items() if not values.isfinite().all()] == []


# With these seeds the last episode's pole stands for 500 steps, after which its environment ends.
_LONG: dict[str, Any] = {"lr": 0.2, "dropout": 0.0, "n_steps": 520, "dtype": "float64"}
STANDING: dict[str, Case] = {
    "reinforce": reinforce.Case(**_LONG, steps=9, seed=53),
    "batch_reinforce": batch_reinforce.Case(**_LONG, steps=7, seed=78, observers=1, batch=False, gamma=0.99),
}


@pytest.mark.long
@pytest.mark.parametrize("tutorial", STANDING)
def test_the_trace_of_a_pole_that_stands_is_the_formulas(tutorial: str) -> None:
    case = STANDING[tutorial]
    assert assert_formula(case)[f"{case.steps - 1:04d}/reward/episode"] == 500


# Fields that have one value in all rows, and why.
_ONE_VALUE = {
    **dict.fromkeys(("timeout", "device", "transfer", "rpc_threads"), "no part of the result"),
    "sharded_parameter_server/accumulation": "has one value",
}


@pytest.mark.parametrize("name", TUTORIALS)
def test_every_option_has_two_values_in_the_table(name: str) -> None:
    """An option without a row of its own has been checked by no formula."""
    rows = [case for case in TABLE.values() if case.tutorial() == name]
    options = [item.name for item in fields(load(name).Case)]
    alike = [option for option in options if len({getattr(row, option) for row in rows}) < 2]
    assert [option for option in alike if not {option, f"{name}/{option}"} & _ONE_VALUE.keys()] == []


@pytest.mark.long
def test_resnet50_is_trained_by_the_formula() -> None:
    assert_formula(batch_parameter_server.Case(trainers=2, steps=2, batch_size=2, image_w=32, image_h=32))


def assert_drawn(got: Tensors, parameters: Tensors, buffers: Tensors) -> None:
    wanted = parameters | buffers
    assert sorted(got) == sorted(wanted)
    assert [name for name in wanted if not torch.equal(got[name], wanted[name])] == []


def test_resnet50_is_drawn_by_the_formula() -> None:
    case = batch_parameter_server.Case(num_classes=11, seed=23)
    assert_drawn(batch_parameter_server.initial_model(case).state_dict(), *batch_formula.initial(case)[:2])


def test_both_halves_of_a_resnet50_are_drawn_by_the_formula() -> None:
    case = pipeline.Case(num_classes=11, seed=23)
    halves = [pipeline.make_shard(case, half) for half in (1, 2)]
    got = {f"shard{half}.{name}": each for half, of in enumerate(halves, 1) for name, each in of.state_dict().items()}
    assert_drawn(got, *pipeline_formula.resnet(SimpleNamespace(**asdict(case)))[:2])


def test_rnn_numbers_bytes_of_every_kind(tmp_path: Path) -> None:
    """All 256 bytes are tokens, including some that are no UTF-8, and both kinds of line ends."""
    (tmp_path / "text").write_bytes("Ein Tor, größer als 2 €\r\n".encode() + bytes(range(255, -1, -1)))
    assert_formula(rnn.Case(text=str(tmp_path / "text"), steps=3, sequence=50, nlayers=1))


# The fields that every case has, and those of one that is trained in natural numbers.
_ANY = {"seed": st.integers(0, 2**63 - 1), "record": st.sampled_from(("every", "ends"))}
_TRAINED = {**_ANY, "dtype": st.sampled_from(("float32", "float64")), "lr": st.floats(0, 0.25)}
# More steps than most starts of a pole last.
_AGENTS = {"n_steps": st.integers(1, 30), "gamma": st.floats(0, 1), "lr": st.floats(0, 0.1)}
_AGENTS["dropout"] = st.floats(0, 0.99)


def computes_the_formula(count: int, cases: st.SearchStrategy[Case]) -> Callable[..., None]:
    """Return the property, with ``count`` examples, that each of these cases has the trace of its formula."""

    @examples(count, case=cases)
    def test(case: Case) -> None:
        assert_formula(case)

    return test


def small(tutorial: str, **more: st.SearchStrategy[Any]) -> st.SearchStrategy[Case]:
    """Natural cases, and exact ones where the tutorial has some."""
    natural = st.builds(replace, NATURAL[tutorial], **{**_TRAINED, **more})
    return natural | st.builds(replace, EXACT[tutorial], **_ANY) if tutorial in EXACT else natural


test_dist_autograd_whatever_the_case = computes_the_formula(40, small("dist_autograd"))
test_parameter_server_whatever_the_case = computes_the_formula(60, small("parameter_server"))
test_batch_parameter_server_whatever_the_case = computes_the_formula(60, small("batch_parameter_server"))
test_sharded_parameter_server_whatever_the_case = computes_the_formula(20, small("sharded_parameter_server"))
test_hybrid_ddp_whatever_the_case = computes_the_formula(60, small("hybrid_ddp"))
test_reinforce_whatever_the_case = computes_the_formula(12, small("reinforce", **_AGENTS))
test_batch_reinforce_whatever_the_case = computes_the_formula(12, small("batch_reinforce", **_AGENTS))
test_rnn_whatever_the_case = computes_the_formula(12, small("rnn", dropout=st.floats(0, 1), lr=st.floats(0, 1)))
test_pipeline_whatever_the_case = computes_the_formula(12, small("pipeline"))


@examples(50, data=st.data(), servers=st.integers(1, 12))
def test_tensors_are_dealt_out_by_their_sizes(data: st.DataObject, servers: int) -> None:
    names = st.text("abc.", min_size=1, max_size=3)
    sizes = data.draw(st.dictionaries(names, st.integers(1, 5), min_size=servers, max_size=16))
    wanted = owners(sizes, servers)
    assert shards(sizes, servers) == [[name for name in sizes if wanted[name] == each] for each in range(servers)]


@pytest.mark.parametrize("kind", ["mlp", "convnet"])
def test_a_models_buffers_lie_with_their_layers_first_parameter(kind: str) -> None:
    model = build_model(kind, image_w=5, image_h=4, num_classes=3, seed=0, dtype="float32")
    for servers in range(1, PARAMETERS[kind] + 1):
        wanted = owners({name: parameter.numel() for name, parameter in model.named_parameters()}, servers)
        wanted |= {name: wanted[f"{name.partition('.')[0]}.weight"] for name, _ in model.named_buffers()}
        held = partition(model, servers)
        assert [set(part) for part in held] == [{n for n in wanted if wanted[n] == each} for each in range(servers)]
        assert sum(map(len, held)) == len(wanted)
