"""The mistakes that the explainer knows. Each gives the numbers that a program with that mistake has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import permutations
from typing import Any

import torch

from reference.explain.causal_order import own_name
from reference.explain.named_numbers import named_numbers
from reference.explain.optimizer_mistakes import optimizer_mistakes
from reference.explain.scene import Part
from reference.explain.view import Candidate, View, total


@dataclass(frozen=True)
class Hypothesis:
    """``id`` is permanent; ``text`` says what a program does that has this mistake."""

    id: str
    text: str
    candidate: Candidate


def hypotheses(view: View) -> Iterator[Hypothesis]:
    """Yield what may be wrong, the simplest first."""
    yield from _other_tensors(view)
    if view.stage == "parameter":
        yield from (Hypothesis(*each) for each in optimizer_mistakes(view))
    yield from _named_factors(view)
    if view.scene is not None and view.stage in ("loss", "gradient"):
        yield from _other_parts(view)
        yield from _other_data(view)
    yield from _precision(view)
    yield from _swapped(view)


def _other_tensors(view: View) -> Iterator[Hypothesis]:
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


def _swapped(view: View) -> Iterator[Hypothesis]:
    """Another tensor's value of the same stage, for the first difference alone."""
    for name in view.names:
        if name != view.first and view.reference[name].shape == view.reference[view.first].shape:
            other = view.reference[name]

            def candidate(asked: str, other: torch.Tensor = other) -> torch.Tensor | None:
                return other if asked == view.first else None

            yield Hypothesis("other-tensor", f"the reference's {name}", candidate)


def _named_factors(view: View) -> Iterator[Hypothesis]:
    """A constant factor that has a name in the case."""
    for number, what in named_numbers(view.case):
        for factor, text in ((float(number), f"{number}"), (1.0 / number, f"1/{number}")):
            yield _factor(
                view, factor, f"exactly {text} * the reference's, {number} = {what}: {_guess(view, what, factor)}"
            )
    yield _factor(view, -1.0, "exactly -1 * the reference's: the sign is turned round?")
    for factor in (2.0, 0.5):
        yield _factor(view, factor, f"exactly {factor:g} * the reference's: the 2 of a square's derivative?")


def _factor(view: View, factor: float, text: str) -> Hypothesis:
    return Hypothesis("factor", text, lambda name: view.reference[name] * factor)


def _guess(view: View, what: str, factor: float) -> str:
    if what in ("trainers", "workers", "observers"):
        return "summed, not averaged?" if factor > 1 else "averaged, not summed, or averaged twice?"
    if what in ("micro-batches", "passes"):
        return "each counted as a whole?" if factor > 1 else "an average instead of an accumulation?"
    return "a sum instead of a mean?" if factor > 1 else "a mean instead of a sum?"


def _other_parts(view: View) -> Iterator[Hypothesis]:
    """One part missing or twice, a mean over the wrong number, another order of the same sum."""
    if not view.scene or not view.scene.summed or view.stage != "gradient" or len(view.parts) < 2:
        return
    parts, divisor, word = view.parts, view.scene.divisor, view.scene.word
    for name in parts:
        others = {key: part for key, part in parts.items() if key != name}
        yield Hypothesis("missing", f"without {name}", view.from_parts(view.usual, others))
        if divisor > 1:
            fewer = view.from_parts(lambda found: total(found) / (divisor - 1), others)
            yield Hypothesis("missing", f"without {name}, and averaged over the other {word}s", fewer)
        twice = view.from_parts(view.usual, {**parts, f"{name} again": parts[name]})
        yield Hypothesis("twice", f"{name} counted twice", twice)
        alone = view.from_parts(total, {name: parts[name]})
        yield Hypothesis("alone", f"that of {name} alone: nothing is added?", alone)
    if len(parts) <= 5:
        for order in permutations(parts):
            mine = view.from_parts(view.usual, {name: parts[name] for name in order})
            yield Hypothesis("order", f"the same sum in the order {', '.join(order)}", mine)


def _other_data(view: View) -> Iterator[Hypothesis]:
    """The batch, the labels or the parameters of another step or of another role."""
    assert view.scene is not None
    scene, names = view.scene, view.scene.names(view.step)
    for step, what in ((view.step + 1, "next"), (view.step - 1, "last"), (0, "first")):
        if step == view.step:
            continue
        yield _with_batches(view, "other-batch", f"of the {what} step's batch", partial(scene.batch, step=step))
        yield _with_batches(
            view, "other-labels", f"with the labels of the {what} step", partial(_mixed, view, step=step)
        )
        yield _at_parameters(view, "stale", f"at the parameters before step {step:04d}", step)
    if len(names) > 1 and scene.word == "trainer":
        for other in names:
            mine = dict.fromkeys(names, scene.batch(other, view.step))
            yield _with_batches(view, "one-batch", f"of {other}'s batch for every {scene.word}", mine.__getitem__)


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


def _at_parameters(view: View, id: str, text: str, step: int) -> Hypothesis:
    return _with_parts(view, id, text, lambda name: view.part(name, parameters=step))


def _with_parts(view: View, id: str, text: str, part_of: Callable[[str], Part | None]) -> Hypothesis:
    """All parts of the step made by ``part_of``, once, and combined as usual; says nothing if one cannot be made."""

    @cache
    def made() -> Candidate | None:
        assert view.scene is not None
        found = {name: part_of(name) for name in view.scene.names(view.step)}
        parts = {name: part for name, part in found.items() if part is not None}
        return view.from_parts(view.usual, parts) if len(parts) == len(found) else None

    return Hypothesis(id, text, lambda name: None if (candidate := made()) is None else candidate(name))


def _precision(view: View) -> Iterator[Hypothesis]:
    """Numbers of float64 that have been float32 in between."""
    if view.reference[view.first].dtype == torch.float64:
        rounded = lambda name: view.reference[name].float().double()  # noqa: E731
        yield Hypothesis("float32", "the reference's, rounded to float32", rounded)
