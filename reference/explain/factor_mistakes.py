"""A constant factor that has a name in the case: a sum instead of a mean, and the reverse."""

from __future__ import annotations

from collections.abc import Iterator

from reference.explain.hypothesis import Hypothesis
from reference.explain.named_numbers import named_numbers
from reference.explain.view import View

# Tutorials whose natural loss is a mean of squares.
_SQUARES = ("batch_parameter_server", "sharded_parameter_server", "parameter_server", "pipeline")
# Numbers over which a loss may take its mean.
_MEANS = ("rows", "classes", "outputs", "tokens")


def factor_mistakes(view: View) -> Iterator[Hypothesis]:
    """Yield the reference's numbers times each named factor, times -1, and times 2 and 1/2.

    Parameters are no multiple of anything: a factor of their change is `optimizer_mistakes`'.
    """
    if view.stage in ("initial", "parameter", "buffer"):
        return
    for (factor, text), causes in _causes(view).items():
        yield _factor(view, factor, f"exactly {text} * the reference's{' Or'.join(causes)}")
    yield _factor(view, -1.0, "exactly -1 * the reference's: the sign is turned round?")


def _causes(view: View) -> dict[tuple[float, str], list[str]]:
    """All that may cause a factor: a number of the case may have several names."""
    found: dict[tuple[float, str], list[str]] = {}
    for number, what in named_numbers(view.case):
        for key in ((float(number), f"{number}"), (1.0 / number, f"1/{number}")):
            start = "," if key not in found else ""
            found.setdefault(key, []).append(f"{start} {number} = {what}: {_guess(view, what, key[0])}")
    for key in ((2.0, "2"), (0.5, "1/2")):
        if view.case.tutorial() in _SQUARES and not view.case.is_exact:
            start = ":" if key not in found else ""
            found.setdefault(key, []).append(f"{start} the 2 of a square's derivative?")
        found.setdefault(key, [", which no number of the case explains"])
    return found


def _factor(view: View, factor: float, text: str) -> Hypothesis:
    return Hypothesis("factor", text, lambda name: view.reference[name] * factor)


def _guess(view: View, what: str, factor: float) -> str:
    if what in ("trainers", "observers") and view.stage == "gradient":
        return "summed, not averaged?" if factor > 1 else "averaged, not summed, or averaged twice?"
    if what in ("micro-batches", "passes"):
        return "each counted as a whole?" if factor > 1 else "an average instead of an accumulation?"
    averaged = not view.case.is_exact  # an exact loss is a sum
    if any(word in what for word in _MEANS) and averaged is (factor > 1):
        return "a sum instead of a mean?" if averaged else "a mean instead of a sum?"
    return "multiplied by it?" if factor > 1 else "divided by it?"
