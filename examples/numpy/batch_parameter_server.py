"""``batch_parameter_server`` in NumPy: the models mlp and convnet."""

from __future__ import annotations

from typing import Any

import numpy as np
from convnet import convnet
from layers import linear, linear_backward, loss_of, relu_backward
from tensors import Arrays, main


def train(case: dict[str, Any], given: Arrays) -> Arrays:
    state = {name.removeprefix("initial/"): array for name, array in given.items() if name.startswith("initial/")}
    trained = [name for name in state if "running" not in name and "tracked" not in name]
    lr, momentum = (state[trained[0]].dtype.type(case[name]) for name in ("lr", "momentum"))
    held: Arrays = {}
    found: Arrays = {}
    for step in range(case["steps"]):
        sums: Arrays = {}
        buffers: Arrays = {}
        for trainer in (f"trainer{number}" for number in range(1, case["trainers"] + 1)):
            x, labels = (given[f"data/{trainer}/{step:04d}/{name}"] for name in ("inputs", "labels"))
            scores, backward, seen = MODELS[case["model"]](state, x)
            loss, g = loss_of(case, scores, labels)
            found[f"{step:04d}/loss/{trainer}"] = loss
            for name, gradient in backward(g).items():
                sums[name] = sums[name] + gradient if name in sums else gradient
            for name, buffer in seen.items():
                buffers[name] = buffers[name] + buffer if name in buffers else buffer
        for name in trained:
            gradient = sums[name] / case["trainers"]
            held[name] = momentum * held[name] + gradient if name in held else gradient
            state[name] = state[name] - lr * held[name]
            found[f"{step:04d}/gradient/{name}"] = gradient
            found[f"{step:04d}/parameter/{name}"] = state[name]
        for name, total in buffers.items():
            # The mean of the trainers' buffers; all count the same number of batches.
            state[name] = (total / case["trainers"]).astype(total.dtype)
            found[f"{step:04d}/buffer/{name}"] = state[name]
    return found


def mlp(p: Arrays, x: Any) -> tuple[Any, Any, Arrays]:
    """Images flattened in row-major order (channel, width, height), a hidden layer of 8, scores."""
    rows = x.reshape(len(x), -1)
    inner = linear(rows, p["1.weight"], p["1.bias"])
    hidden = np.maximum(inner, 0)

    def backward(g: Any) -> Arrays:
        g_hidden, weight, bias = linear_backward(hidden, p["3.weight"], g)
        _, first, first_bias = linear_backward(rows, p["1.weight"], relu_backward(inner, g_hidden))
        return {"1.weight": first, "1.bias": first_bias, "3.weight": weight, "3.bias": bias}

    return linear(hidden, p["3.weight"], p["3.bias"]), backward, {}


MODELS = {"mlp": mlp, "convnet": convnet}

if __name__ == "__main__":
    main(train)
