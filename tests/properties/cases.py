"""Hypothesis strategies for cases: small ones that a tutorial takes, of every shape it has.

Every case that comes out is valid, nothing is filtered, and it shrinks towards the smallest: one step, one trainer, one
micro-batch, one image, the seed 0. Exact ones are so small that no twin refuses one (test_gradients.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from reference import (
    batch_parameter_server,
    batch_reinforce,
    dist_autograd,
    hybrid_ddp,
    parameter_server,
    pipeline,
    reinforce,
    rnn,
    sharded_parameter_server,
)
from reference.trace import Case

Cases = st.SearchStrategy[Case]

# The most roles of one kind in a case; a world that runs all cases has as many.
MOST = 4

_SEED = st.integers(0, 2**16)
_EXACT = {"dtype": st.just("float64"), "arithmetic": st.just("exact")}
_POWERS = st.sampled_from((1.0, 0.5, 0.25, 0.125))
_EXACT_LR = st.sampled_from((0.5, 0.25, 0.125, 1.0))
_LR = st.sampled_from((0.1, 0.01, 0.3))
_MOMENTUM = st.sampled_from((0.0, 0.9, 0.5))


def _of(kind: type[Case], **fields: Any) -> Cases:
    """Make cases from fields, which are strategies or plain values."""
    strategies = {n: v if isinstance(v, st.SearchStrategy) else st.just(v) for n, v in fields.items()}
    return st.builds(kind, seed=_SEED, timeout=st.just(20.0), **strategies)


def _images(smallest: int) -> dict[str, Any]:
    """Sides, classes and images of a batch."""
    return {
        "image_w": st.integers(smallest, smallest + 2),
        "image_h": st.integers(smallest, smallest + 2),
        "num_classes": st.integers(2, 5),
    }


# Numbers of trainers whose mean is exact; a mean over three is not.
_TWOS = st.sampled_from((1, 2, MOST))
_ROUNDS = {"steps": st.integers(1, 2), "batch_size": st.integers(2, 4), **_images(4)}
_EXACT_ROUNDS = {"model": "mlp", **_ROUNDS, **_EXACT, "trainers": _TWOS, "lr": _EXACT_LR}
_EXACT_ROUNDS["momentum"] = st.sampled_from((0.0, 0.5, 0.25, 1.0))
_NATURAL_ROUNDS = {"model": st.sampled_from(("mlp", "convnet")), **_ROUNDS, "lr": _LR, "momentum": _MOMENTUM}
_NATURAL_ROUNDS |= {"trainers": st.integers(1, MOST), "steps": st.integers(1, 3)}
_ORDERS = st.sampled_from(("rank", "arrival"))

_VECTORS = {"inputs": st.integers(1, 6), "outputs": st.integers(1, 4), "batch_size": st.integers(1, 4)}
_VECTORS |= {"steps": st.integers(1, 4), "workers": st.integers(1, MOST), "staleness": st.sampled_from((0, 1))}

_BAGS = {"rows": st.integers(1, 6), "dim": st.integers(1, 4), "hidden": st.integers(1, 4)}
_BAGS |= {"num_classes": st.integers(2, 4), "batch_size": st.integers(1, 4), "bag": st.integers(1, 3)}
_BAGS |= {"steps": st.integers(1, 2), "accumulation": st.sampled_from(("rank", "allreduce"))}


_SQUARES = {"steps": st.integers(1, 3), "side": st.integers(1, 4), "contexts": st.integers(1, 3)}

_WORDS = {"steps": st.integers(1, 4), "batches": st.integers(1, 3), "sequence": st.integers(1, 4)}
_WORDS |= {"batch_size": st.integers(1, 3), "ninp": st.integers(1, 4), "nhid": st.integers(1, 4)}


@st.composite
def _halves(draw: st.DrawFn, /, **fields: Any) -> Case:
    """A pipeline of linear layers: at most as many micro-batches as images."""
    batch = draw(st.integers(1, 6))
    splits = draw(st.integers(1, batch))
    sizes = {"model": "mlp", "depth": st.integers(1, 2), "width": st.integers(1, 6), **_images(1)}
    return draw(_of(pipeline.Case, batch_size=batch, num_split=splits, **sizes, **fields))


@st.composite
def resnets(draw: st.DrawFn) -> Case:
    """A pipeline of ResNet50's halves, with images so tiny that a step takes a second."""
    splits = draw(st.integers(1, 3))
    images = splits * 2  # batch norm needs two values a micro-batch
    sizes = {"image_w": st.integers(16, 20), "image_h": st.integers(16, 20), "num_classes": st.integers(2, 5)}
    return draw(_of(pipeline.Case, batch_size=images, num_split=splits, steps=1, lr=_LR, **sizes))


def _sharded(**fields: Any) -> Cases:
    return _of(sharded_parameter_server.Case, servers=st.integers(1, 3), **fields)


EXACT: Mapping[str, Cases] = {
    "parameter_server": _of(parameter_server.Case, **_VECTORS, **_EXACT, lr=_POWERS),
    "batch_parameter_server": _of(batch_parameter_server.Case, **_EXACT_ROUNDS, accumulation=_ORDERS),
    "sharded_parameter_server": _sharded(**_EXACT_ROUNDS),
    "pipeline": _halves(**_EXACT, steps=st.integers(1, 2), lr=_EXACT_LR),
    "dist_autograd": _of(dist_autograd.Case, **_EXACT, **_SQUARES, lr=_EXACT_LR),
    "hybrid_ddp": _of(hybrid_ddp.Case, **_BAGS, **_EXACT, trainers=_TWOS, lr=_EXACT_LR),
}

_EPISODES = {"steps": st.integers(1, 2), "observers": st.integers(1, 3), "n_steps": st.integers(1, 12)}
_EPISODES |= {"gamma": st.sampled_from((1.0, 0.99, 0.0)), "dropout": st.sampled_from((0.0, 0.6))}

NATURAL: Mapping[str, Cases] = {
    "parameter_server": _of(parameter_server.Case, **_VECTORS, lr=_LR),
    "batch_parameter_server": _of(batch_parameter_server.Case, **_NATURAL_ROUNDS, accumulation=_ORDERS),
    "sharded_parameter_server": _sharded(**_NATURAL_ROUNDS),
    "pipeline": _halves(steps=st.integers(1, 3), lr=_LR),
    "dist_autograd": _of(dist_autograd.Case, **_SQUARES, lr=_LR),
    "hybrid_ddp": _of(hybrid_ddp.Case, **_BAGS, trainers=st.integers(1, MOST), lr=_LR),
    "rnn": _of(rnn.Case, **_WORDS, nlayers=st.integers(1, 3), dropout=st.sampled_from((0.0, 0.5, 1.0)), lr=_LR),
    "reinforce": _of(reinforce.Case, **_EPISODES),
    "batch_reinforce": _of(batch_reinforce.Case, **_EPISODES, batch=st.booleans()),
}
