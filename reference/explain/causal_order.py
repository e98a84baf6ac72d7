"""Order a trace's tensors by cause and effect, so that the first difference is where the mistake is."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Within a step: what is chosen and earned, then the loss, then gradients, then what the optimizer made of them.
_STAGES = ("actions", "log_probs", "steps", "result", "sum", "rewards", "loss", "gradient", "parameter", "buffer")

# Layers whose names come before those of layers that they follow.
_LAST_LAYERS = ("decoder", "fc")


def in_causal_order(names: Iterable[str]) -> list[str]:
    """Sort names: ``initial/…``, then step by step the stages.

    Within a stage the names decide, 2 before 10. A backward pass goes the other way: gradients of the last layer come
    first, so that the first wrong one is where the mistake is.
    """
    forward = sorted(names, key=_by_layer)
    backward = [name for name in reversed(forward) if place_of(name)[1] == "gradient"]
    others = [name for name in forward if place_of(name)[1] != "gradient"]
    return sorted([*others, *backward], key=_by_stage)


def _by_stage(name: str) -> tuple[int, int]:
    step, stage = place_of(name)
    return step, _STAGES.index(stage) if stage in _STAGES else len(_STAGES)


def _by_layer(name: str) -> tuple[bool, list[tuple[int, str]]]:
    own = own_name(name)
    numbers = [(int(each), "") if each.isdigit() else (-1, each) for each in re.split(r"(\d+)", own)]
    return own.startswith(_LAST_LAYERS), numbers


def place_of(name: str) -> tuple[int, str]:
    """A tensor's step, -1 before the first one, and its stage, such as ``gradient``."""
    first, _, rest = name.partition("/")
    if not first.isdigit():
        return -1, first
    return int(first), rest.partition("/")[0]


def own_name(name: str) -> str:
    """A tensor's name without step and stage: ``0003/gradient/0.weight`` is ``0.weight``."""
    return (
        name.split("/", 2)[2] if name.count("/") >= 2 and name.partition("/")[0].isdigit() else name.partition("/")[2]
    )
