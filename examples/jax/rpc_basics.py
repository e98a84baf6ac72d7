"""``rpc_basics``: the values that the called functions return, in every form of call and from both roles."""

from __future__ import annotations

from itertools import product
from typing import Any

from training import Tree, entries

FUNCTIONS = {"builtin": lambda x, y: x + y, "python": lambda x, y: x + 2 * y, "torchscript": lambda x, y: 3 * x + y}
PLACES = [f"{role}/{form}" for role in ("caller", "dest_worker") for form in ("rpc_sync", "rpc_async", "remote")]


def train(case: dict[str, Any], given: Tree) -> Tree:
    trace: Tree = {}
    for step in range(case["steps"]):
        x, y = (given[f"data/caller/{step:04d}/{name}"] for name in "xy")
        calls = product(PLACES, FUNCTIONS.items())
        trace |= entries(step, result={f"{place}/{name}": function(x, y) for place, (name, function) in calls})
    return trace
