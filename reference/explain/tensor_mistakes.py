"""A tensor of the reference in another place: another step's, another name's, another layout or precision."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from reference.explain.causal_order import own_name
from reference.explain.closeness import close, same_bits
from reference.explain.hypothesis import Hypothesis
from reference.explain.view import Candidate, View


def tensor_mistakes(view: View) -> Iterator[Hypothesis]:
    """The value of another step, of another tensor, or the same numbers in another layout."""
    reference = view.reference

    def at(step: int) -> Candidate:
        return lambda name: reference.get(f"{step:04d}/{view.stage}/{own_name(name)}")

    if view.stage == "parameter":
        text = "the parameters before the update: recorded too early, or never updated?"
        yield Hypothesis("not-updated", text, lambda name: view.before(own_name(name), view.step))
    for step in (view.step - 1, view.step + 1, *range(view.step - 1)):
        if step >= 0 and not (view.stage == "parameter" and step == view.step - 1):
            yield Hypothesis("other-step", f"the reference's of step {step:04d}", at(step))

    def transposed(name: str) -> torch.Tensor | None:
        tensor = reference[name]
        if tensor.dim() != 2:
            return tensor
        mine = view.yours[name]
        return tensor.t() if tensor.shape[0] == tensor.shape[1] else tensor.t().reshape(mine.shape)

    yield Hypothesis("transposed", "transposed: layouts are (out, in)?", transposed)


def other_tensor(view: View) -> Iterator[Hypothesis]:
    """Another tensor's value of the same stage, for the first difference alone."""
    for name in view.names:
        if name != view.first and view.reference[name].shape == view.reference[view.first].shape:
            other = view.reference[name]

            def candidate(asked: str, other: torch.Tensor = other) -> torch.Tensor | None:
                return other if asked == view.first else None

            yield Hypothesis("other-tensor", f"the reference's {name}", candidate)


def precision_mistakes(view: View) -> Iterator[Hypothesis]:
    """Numbers of float64 that have been float32 in between."""
    if view.reference[view.first].dtype != torch.float64:
        return

    def single(name: str) -> torch.Tensor:
        """Yours where they are numbers of float32 and the reference's up to float32's rounding."""
        mine, right = view.yours[name], view.reference[name]
        fits = same_bits(mine, mine.float().double()) and close(mine, right, torch.finfo(torch.float32).eps)
        return mine if fits else right

    text = "numbers of float32, which are the reference's up to float32's rounding: computed or stored in float32?"
    yield Hypothesis("float32", text, single)
