"""Order a trace's tensors by cause and effect, so that the first difference is where the mistake is."""

from __future__ import annotations

# Within a step: what is chosen and earned, then the loss, then gradients, then what the optimizer made of them.
_STAGES = ("actions", "log_probs", "steps", "result", "sum", "rewards", "loss", "gradient", "parameter", "buffer")

Key = tuple[int, int, str]


def causal_key(name: str) -> Key:
    """A tensor's place: ``initial/…`` comes first, then step by step the stages; names decide between equals."""
    step, stage = place_of(name)
    rank = _STAGES.index(stage) if stage in _STAGES else len(_STAGES)
    return step, rank, name


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
