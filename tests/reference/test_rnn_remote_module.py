"""A trainer asks a model's parts on two roles for parameters by reference, their values, and a context's gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed.autograd as dist_autograd

from reference.rnn import RNNModel
from reference.world import World

pytestmark = pytest.mark.world("a", "b")


def model() -> RNNModel:
    """Runs on a, which has the LSTM; the embedding and the decoder live on ``b``."""
    return RNNModel("b", ntoken=3, ninp=2, nhid=2, nlayers=1, dropout=0.0, seed=0, dtype="float32")


def references() -> tuple[list[str], list[bool]]:
    """Runs on a: the owners of the parameters, and whether each has the value that it is told."""
    asked = model()
    both = list(zip(asked.parameter_rrefs(), asked.values().values(), strict=True))
    return [rref.owner_name() for rref, _ in both], [torch.equal(rref.to_here(), value) for rref, value in both]


def test_parameters_are_referred_to_in_the_modules_order(world: World) -> None:
    """Erratum S3.3: on their owner."""
    assert world.call("a", references) == (["b", "a", "a", "a", "a", "b", "b"], [True] * 7)


def fetched() -> list[tuple[str, bool]]:
    """Runs on a."""
    return [(name, value.requires_grad) for name, value in model().values().items()]


LSTM = [f"rnn/{kind}_{way}h_l0" for kind in ("weight", "bias") for way in "ih"]
NAMES = ["emb_table/encoder.weight", *LSTM, "decoder/decoder.weight", "decoder/decoder.bias"]


def test_values_are_the_parameters_without_their_graph(world: World) -> None:
    assert world.call("a", fetched) == [(name, False) for name in NAMES]


def gradients_of_two_contexts() -> list[dict[str, Any]]:
    """Runs on a: the gradients of the sum of all scores, for two tokens and for three, in a context of its own each."""
    asked, found = model(), []
    for count in (2, 3):
        with dist_autograd.context() as context:
            scores, _ = asked(torch.zeros(count, 1, dtype=torch.int64), (torch.zeros(1, 1, 2), torch.zeros(1, 1, 2)), 0)
            dist_autograd.backward(context, [scores.sum()])  # type: ignore[attr-defined]
            found.append(asked.gradients(context))
    return found


def test_gradients_are_those_of_the_context(world: World) -> None:
    for count, gradients in zip((2, 3), world.call("a", gradients_of_two_contexts), strict=True):
        assert gradients["decoder/decoder.bias"].tolist() == [count] * 3
        assert list(gradients) == NAMES
