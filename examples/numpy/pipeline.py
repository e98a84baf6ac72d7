"""``pipeline`` in NumPy: the mlp, whose micro-batches only order the sums."""

from __future__ import annotations

from typing import Any

import numpy as np
from layers import linear, linear_backward, loss_of, relu_backward
from tensors import Arrays, main


def train(case: dict[str, Any], given: Arrays) -> Arrays:
    p = {name.removeprefix("initial/"): array for name, array in given.items() if name.startswith("initial/")}
    names = layers_of(case)
    lr = p[f"{names[0]}.weight"].dtype.type(case["lr"])
    found: Arrays = {}
    for step in range(case["steps"]):
        x, labels = (given[f"data/master/{step:04d}/{name}"] for name in ("inputs", "labels"))
        parts = [forward(p, names, rows) for rows in np.array_split(x.reshape(len(x), -1), case["num_split"])]
        loss, g = loss_of(case, np.concatenate([activations[-1] for activations in parts]), labels)
        found[f"{step:04d}/loss/master"] = loss
        sums: Arrays = {}
        for activations, share in zip(parts, np.array_split(g, case["num_split"]), strict=True):
            for name, gradient in backward(p, names, activations, share).items():
                sums[name] = sums[name] + gradient if name in sums else gradient
        for name, gradient in sums.items():
            p[name] = p[name] - lr * gradient
            found[f"{step:04d}/gradient/{name}"] = gradient
            found[f"{step:04d}/parameter/{name}"] = p[name]
    return found


def layers_of(case: dict[str, Any]) -> list[str]:
    """The linear layers in their order. In shard1 a flattening comes first; after each layer but the last, a ReLU."""
    depth = case["depth"]
    return [f"shard1.seq.{2 * n + 1}" for n in range(depth)] + [f"shard2.seq.{2 * n}" for n in range(depth)]


def forward(p: Arrays, names: list[str], x: Any) -> list[Any]:
    """Each layer's input, and at the end the scores."""
    found = [x]
    for name in names:
        x = linear(x, p[f"{name}.weight"], p[f"{name}.bias"])
        x = x if name == names[-1] else np.maximum(x, 0)
        found.append(x)
    return found


def backward(p: Arrays, names: list[str], activations: list[Any], g: Any) -> Arrays:
    found: Arrays = {}
    for place in range(len(names) - 1, -1, -1):
        name, x = names[place], activations[place]
        g, found[f"{name}.weight"], found[f"{name}.bias"] = linear_backward(x, p[f"{name}.weight"], g)
        g = relu_backward(x, g) if place else g
    return found


if __name__ == "__main__":
    main(train)
