"""``parameter_server`` in NumPy: workers pull and push in the order that the case gives."""

from __future__ import annotations

from typing import Any

from layers import linear, linear_backward
from tensors import Arrays, main

PULL = 0


def train(case: dict[str, Any], given: Arrays) -> Arrays:
    """With staleness 1 a worker's gradients are those at the pull before its last one."""
    p = {name: given[f"initial/{name}"] for name in ("weight", "bias")}
    lr = p["weight"].dtype.type(case["lr"])
    pulled: dict[int, list[Arrays]] = {}
    pushed: dict[int, int] = {}
    found: Arrays = {}
    update = 0
    for kind, worker in given["order/events"].tolist():
        if kind == PULL:
            pulled.setdefault(worker, []).append(dict(p))
            continue
        number = pushed.get(worker, 0)
        pushed[worker] = number + 1
        place = f"data/worker{worker + 1}/{number:04d}"
        at = pulled[worker][max(0, len(pulled[worker]) - 1 - case["staleness"])]
        loss, gradients = step(case, at, given[f"{place}/data"], given[f"{place}/target"])
        p = {name: p[name] - lr * gradients[name] for name in p}
        found[f"{update:04d}/loss/worker{worker + 1}"] = loss
        found |= {f"{update:04d}/gradient/{name}": gradient for name, gradient in gradients.items()}
        found |= {f"{update:04d}/parameter/{name}": parameter for name, parameter in p.items()}
        update += 1
    return found


def step(case: dict[str, Any], p: Arrays, data: Any, target: Any) -> tuple[Any, Arrays]:
    """Loss and gradients: the mean square error; in exact arithmetic Σ output × target."""
    output = linear(data, p["weight"], p["bias"])
    if case["arithmetic"] == "exact":
        loss, g = (output * target).sum(), target
    else:
        loss, g = ((output - target) ** 2).mean(), 2 * (output - target) / output.dtype.type(output.size)
    _, weight, bias = linear_backward(data, p["weight"], g)
    return loss, {"weight": weight, "bias": bias}


if __name__ == "__main__":
    main(train)
