"""A case of each tutorial that takes a second or two, for tests and for sweeps of faults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reference import load
from reference.trace.case import Case

_IMAGES = {"model": "convnet", "trainers": 2, "batch_size": 4, "image_w": 8, "image_h": 8, "steps": 2}
_PIPELINE = {"model": "mlp", "steps": 2, "batch_size": 4, "num_split": 2, "image_w": 8, "image_h": 8, "num_classes": 10}
_EPISODES = {"observers": 2, "steps": 2, "n_steps": 20}

# The fields that differ from the defaults. A tutorial that is not listed only has its steps limited to two.
QUICK: Mapping[str, Mapping[str, Any]] = {
    "parameter_server": {"workers": 2, "steps": 3},
    "batch_parameter_server": _IMAGES,
    "sharded_parameter_server": {**_IMAGES, "servers": 2},
    "reinforce": _EPISODES,
    "batch_reinforce": _EPISODES,
    "pipeline": {**_PIPELINE, "rpc_threads": 16},
}


def quick(name: str, **different: Any) -> Case:
    """Make a tutorial's small case, with the fields ``different``. Raises CaseError: they are not valid."""
    kind = load(name).Case
    small = {"steps": min(2, kind().steps), **QUICK.get(name, {})}
    if different.get("arithmetic") == "exact":
        small |= kind.EXACT  # values that fit
    case: Case = kind(**{**small, **different})
    return case
