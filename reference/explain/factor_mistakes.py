"""A constant factor that has a name in the case: a sum instead of a mean, and the reverse."""

from __future__ import annotations

from collections.abc import Iterator

from reference.explain.hypothesis import Hypothesis
from reference.explain.named_numbers import named_numbers
from reference.explain.view import View


def factor_mistakes(view: View) -> Iterator[Hypothesis]:
    """Yield the reference's numbers times each named factor, times -1, and times 2 and 1/2."""
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
