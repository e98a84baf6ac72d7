"""A sum over trainers or micro-batches with a part missing or twice. Another order of the sum is only rounding."""

from __future__ import annotations

from collections.abc import Iterator

from reference.explain.hypothesis import Hypothesis
from reference.explain.view import View, total


def part_mistakes(view: View) -> Iterator[Hypothesis]:
    """Yield sums with one part missing or twice, means over fewer parts, and one part alone."""
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
