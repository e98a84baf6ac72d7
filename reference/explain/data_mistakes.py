"""Losses and gradients of other data: another batch, other labels, other parameters, another rule at ReLU's kink."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

from reference.explain.hypothesis import Hypothesis
from reference.explain.relu_at_zero import relu_at_zero
from reference.explain.scene import Part
from reference.explain.view import Candidate, View

# How many steps before and after this one are tried.
NEAR = 3


def data_mistakes(view: View) -> Iterator[Hypothesis]:
    """Yield the step's losses and gradients, computed of what another step or another role has."""
    yield from _other_batches(view)
    yield from _other_parameters(view)
    yield from _other_labels(view)
    assert view.scene is not None
    for id, text, part_of in view.scene.variants(view.step):
        yield _with_parts(view, id, text, part_of)
    for slope, how in (
        (0.5, "1/2, as that of maximum(x, 0) is"),
        (1.0, "1, as that of clamp(x, 0) is"),
    ):
        yield _with_parts(view, "relu-at-zero", f"with a gradient of ReLU at 0 of {how}", partial(_kinked, view, slope))


def _other_batches(view: View) -> Iterator[Hypothesis]:
    assert view.scene is not None
    scene, names = view.scene, view.scene.names(view.step)
    for step, what in ((view.step + 1, "next"), (view.step - 1, "last"), (0, "first")):
        if step != view.step:
            text = f"of the {what} step's batch"
            yield _with_batches(view, "other-batch", text, partial(scene.batch, step=step))
            text = f"with the labels of the {what} step"
            yield _with_batches(view, "other-labels", text, partial(_mixed, view, step=step))
    if len(names) > 1 and scene.word == "trainer":
        for other in names:
            mine = dict.fromkeys(names, scene.batch(other, view.step))
            yield _with_batches(view, "one-batch", f"of {other}'s batch for every {scene.word}", mine.__getitem__)


def _other_parameters(view: View) -> Iterator[Hypothesis]:
    """Stale parameters, or parameters that are newer than those at which the case wants the gradient."""
    assert view.scene is not None
    right = view.scene.taken_at(view.step)
    for step in sorted({0, *range(right - NEAR, view.step + 2)}, key=lambda each: (abs(each - right), each)):
        if step >= 0 and step != right:
            id = "stale" if step < right else "newer"
            text = f"at the parameters before step {step:04d}, wanted those before step {right:04d}"
            yield _with_parts(view, id, text, partial(view.part, parameters=step))


def _other_labels(view: View) -> Iterator[Hypothesis]:
    """The exact loss multiplies by label + 1, so that label 0 counts."""
    if view.case.is_exact:
        yield _with_batches(view, "plain-labels", "with the labels, wanted label + 1", partial(_plain, view))


def _plain(view: View, name: str) -> Any:
    assert view.scene is not None
    mine = view.scene.batch(name, view.step)
    return None if mine is None or len(mine) != 2 else (mine[0], mine[1] - 1)


def _kinked(view: View, slope: float, name: str) -> Part | None:
    with relu_at_zero(slope):
        return view.part(name)


def _mixed(view: View, name: str, step: int) -> Any:
    """This step's inputs with another step's labels."""
    assert view.scene is not None
    mine, other = view.scene.batch(name, view.step), view.scene.batch(name, step)
    if mine is None or other is None or len(mine) != 2 or mine[1].shape != other[1].shape:
        return None
    return mine[0], other[1]


def _with_batches(view: View, id: str, text: str, batch_of: Callable[[str], Any]) -> Hypothesis:
    def part_of(name: str) -> Part | None:
        batch = batch_of(name)
        return None if batch is None else view.part(name, batch=batch)

    return _with_parts(view, id, text, part_of)


def _with_parts(view: View, id: str, text: str, part_of: Callable[[str], Part | None]) -> Hypothesis:
    """All parts of the step made by ``part_of``, once, and combined as usual; says nothing if one cannot be made."""

    @cache
    def made() -> Candidate | None:
        assert view.scene is not None
        found = {name: part_of(name) for name in view.scene.names(view.step)}
        parts = {name: part for name, part in found.items() if part is not None}
        return view.from_parts(view.usual, parts) if len(parts) == len(found) else None

    return Hypothesis(id, text, lambda name: None if (candidate := made()) is None else candidate(name))
