"""All mistakes that the explainer knows. Each gives the numbers that a program with that mistake has."""

from __future__ import annotations

from collections.abc import Iterator

from reference.explain.data_mistakes import data_mistakes
from reference.explain.factor_mistakes import factor_mistakes
from reference.explain.hypothesis import Hypothesis
from reference.explain.optimizer_mistakes import optimizer_mistakes
from reference.explain.part_mistakes import part_mistakes
from reference.explain.reward_mistakes import reward_mistakes
from reference.explain.tensor_mistakes import other_tensor, precision_mistakes, tensor_mistakes
from reference.explain.view import View


def hypotheses(view: View) -> Iterator[Hypothesis]:
    """Yield what may be wrong, the simplest first."""
    yield from tensor_mistakes(view)
    if view.stage == "parameter":
        yield from optimizer_mistakes(view)
    yield from factor_mistakes(view)
    if view.stage == "loss":
        yield from reward_mistakes(view)
    if view.scene is not None and view.stage in ("loss", "gradient"):
        yield from part_mistakes(view)
        yield from data_mistakes(view)
    yield from precision_mistakes(view)
    yield from other_tensor(view)
