"""``hybrid_ddp`` in NumPy: a table on the server, and dense layers that are equal on all trainers."""

from __future__ import annotations

from typing import Any

import numpy as np
from layers import cross_entropy, linear, linear_backward, relu_backward
from tensors import Arrays, main


def train(case: dict[str, Any], given: Arrays) -> Arrays:
    trainers = [f"trainer{number}" for number in range(1, case["trainers"] + 1)]
    p = {name: given[f"initial/trainer1/{name}"] for name in ("0.weight", "0.bias", "2.weight", "2.bias")}
    p["table"] = given["initial/ps/weight"]
    lr = p["table"].dtype.type(case["lr"])
    found: Arrays = {}
    for step in range(case["steps"]):
        sums: Arrays = {}
        for trainer in trainers:
            indices, target = (given[f"data/{trainer}/{step:04d}/{name}"] for name in ("indices", "target"))
            found[f"{step:04d}/loss/{trainer}"], gradients = part(case, p, indices, target)
            for name, gradient in gradients.items():
                sums[name] = sums[name] + gradient if name in sums else gradient
        for name, total in sums.items():
            gradient = total / total.dtype.type(len(trainers))
            p[name] = p[name] - lr * gradient
            for owner in ["ps"] if name == "table" else trainers:
                own = f"{owner}/{'weight' if name == 'table' else name}"
                found[f"{step:04d}/gradient/{own}"] = gradient
                found[f"{step:04d}/parameter/{own}"] = p[name]
    return found


def part(case: dict[str, Any], p: Arrays, indices: Any, target: Any) -> tuple[Any, Arrays]:
    """One trainer's loss and gradients. ``indices`` are (batch_size, bag): a bag is the sum of its rows."""
    bags = p["table"][indices].sum(1)
    inner = linear(bags, p["0.weight"], p["0.bias"])
    hidden = np.maximum(inner, 0)
    scores = linear(hidden, p["2.weight"], p["2.bias"])
    if case["arithmetic"] == "exact":
        weights = 1 + np.eye(case["num_classes"])[target]  # the loss is Σ score × (1 + one-hot)
        loss, g = (scores * weights).sum(), weights
    else:
        loss, g = cross_entropy(scores, target)
    g_hidden, weight, bias = linear_backward(hidden, p["2.weight"], g)
    g_bags, first, first_bias = linear_backward(bags, p["0.weight"], relu_backward(inner, g_hidden))
    table = np.zeros_like(p["table"])
    np.add.at(table, indices, g_bags[:, None, :])
    return loss, {"table": table, "0.weight": first, "0.bias": first_bias, "2.weight": weight, "2.bias": bias}


if __name__ == "__main__":
    main(train)
