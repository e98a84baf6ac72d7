"""Say of changed programs, which are the twin under a patch, whether they give the numbers of one stage."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import torch
from torch import nn

from reference import load
from reference.explain.stages import Cause, Failed
from reference.trace.names import own_name, parameter_before, place_of
from reference.trace.trace import Named


def other_twins(failed: Failed) -> Iterator[Cause]:
    """Yield what may be wrong and takes a run of the twin to try."""
    yield from other_cases(failed)
    yield from other_parameters(failed)
    yield from other_data(failed)
    yield from other_functions(failed)


# What a program may take no notice of: fields of the case, with the values that they then have.
_FIELDS: dict[str, tuple[Any, ...]] = {
    "dropout": (0.0,),
    "gamma": (1.0, 0.0),
    "num_split": (1,),
    "staleness": (0, 1),
    "batch": (False, True),
}


def other_cases(failed: Failed) -> Iterator[Cause]:
    """Yield what the reference computes with another field of the case."""
    for field, values in _FIELDS.items():
        for value in values:
            if getattr(failed.case, field, value) != value:
                yield Cause("field", f"as with {field}={value}", failed.again(fields={field: value}))


def other_parameters(failed: Failed) -> Iterator[Cause]:
    """Yield stages that are computed at stale parameters."""
    if failed.place[1] in ("parameter", "initial"):
        return
    for by in (1, 2, 3):
        if by <= failed.place[0]:
            text = f"at the parameters of {by} step{'s' * (by > 1)} earlier"
            yield Cause("stale", text, failed.again(tensors=_stale(failed.yours, by)))


def _stale(tensors: Named, by: int) -> Named:
    def older(name: str) -> str:
        return parameter_before(place_of(name)[0] - by + 1, own_name(name))

    return {name: tensors.get(older(name), t) if place_of(name)[1] == "parameter" else t for name, t in tensors.items()}


def other_data(failed: Failed) -> Iterator[Cause]:
    """Yield stages that are computed of another step's batch, or of its labels."""
    tutorial = failed.case.tutorial()
    module = load("batch_parameter_server" if tutorial == "sharded_parameter_server" else tutorial)
    name = "batches" if hasattr(module, "batches") else "get_next_batch"  # as some published texts call it
    if not (own := getattr(module, name, None)):
        return
    for by, what in ((1, "next"), (-1, "previous")):
        for fields, told in ((slice(-2, None), "batch"), (slice(-1, None), "labels")):

            def shifted(*args: Any, by: int = by, fields: slice = fields) -> Iterator[Any]:
                every = list(own(*args))
                for step, batch in enumerate(every):
                    other = every[(step + by) % len(every)]
                    mixed = list(batch)
                    mixed[fields] = other[fields]
                    yield tuple(mixed)

            patch = mock.patch.object(module, name, shifted)
            yield Cause(f"other-{told}", f"with the {what} step's {told}", failed.again(patch))


class _ReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, slope: float) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.slope = slope
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        (x,) = ctx.saved_tensors
        return grads[0] * ((x > 0) + ctx.slope * (x == 0)), None


def _relu(slope: float) -> Callable[..., Any]:
    return lambda x, inplace=False: _ReLU.apply(x, slope)  # type: ignore[no-untyped-call]


_lstm = nn.LSTM.forward


def _not_normalized(returns: Sequence[Sequence[float]], dtype: torch.dtype) -> list[torch.Tensor]:
    return [torch.tensor(each, dtype=dtype) for each in returns]


def _unbiased(returns: Sequence[Sequence[float]], dtype: torch.dtype) -> list[torch.Tensor]:
    """Normalise as the published example does, by `torch.std`."""
    from reference.training.cartpole import EPS  # here, because it needs gymnasium

    flat = torch.cat(_not_normalized(returns, dtype))
    return [*((flat - flat.mean()) / (flat.std() + EPS)).split([len(each) for each in returns])]


def other_functions(failed: Failed) -> Iterator[Cause]:
    """Yield what the reference computes with another function in the place of one of torch's."""
    relu, lstm = "torch.nn.functional.relu", "torch.nn.LSTM.forward"
    returns = "reference.training.cartpole.normalized"
    for tutorial, target, text, new in (
        ("", relu, "with a gradient of ReLU at 0 of 1/2, as that of maximum(x, 0) is", _relu(0.5)),
        ("", relu, "with a gradient of ReLU at 0 of 1, as that of clamp(x, 0) is", _relu(1.0)),
        ("rnn", lstm, "with a hidden state of zeros at each step", lambda self, x, hx=None: _lstm(self, x, None)),
        ("reinforce", returns, "with returns that are not normalised", _not_normalized),
        ("reinforce", returns, "with the returns' deviation over n - 1, not n", _unbiased),
    ):
        if tutorial in ("", failed.case.tutorial()):
            yield Cause("function", text, failed.again(mock.patch(target, new)))
