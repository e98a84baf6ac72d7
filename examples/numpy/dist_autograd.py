"""``dist_autograd`` in NumPy: p1 and p2 with the loss (c + 1) Σ (p1 + p2)² in each pass c."""

from __future__ import annotations

from typing import Any

from tensors import Arrays, main


def train(case: dict[str, Any], given: Arrays) -> Arrays:
    """All passes compute at the same parameters; then each pass's gradients are applied, one pass after the other."""
    parameters = {name: given[f"initial/{name}"] for name in ("worker1", "worker2")}
    found: Arrays = {}
    for step in range(case["steps"]):
        total = parameters["worker1"] + parameters["worker2"]
        gradients = [2 * total * (context + 1) for context in range(case["contexts"])]
        for context, gradient in enumerate(gradients):
            found[f"{step:04d}/loss/context{context}"] = (total * total).sum() * total.dtype.type(context + 1)
            for name in parameters:
                found[f"{step:04d}/gradient/context{context}/{name}"] = gradient
                parameters[name] = parameters[name] - total.dtype.type(case["lr"]) * gradient
        for name, parameter in parameters.items():
            found[f"{step:04d}/parameter/{name}"] = parameter
    return found


if __name__ == "__main__":
    main(train)
