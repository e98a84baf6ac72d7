"""``reinforce`` in NumPy, on recorded episodes: states and rewards in; actions, loss and update out."""

from __future__ import annotations

from typing import Any

import numpy as np
from agent import Adam, added, begin, discounted, recorded
from tensors import Arrays, main


def train(case: dict[str, Any], given: Arrays) -> Arrays:
    p, names = begin(case, given)
    adam, dtype, running = Adam(case["lr"]), p["affine1.bias"].dtype, 0.0
    found: Arrays = {}
    for episode in range(case["steps"]):
        played, returns, sums = [], [], []
        for name in names:
            place = f"{name}/{episode:04d}"
            played.append(recorded(p, given, place))
            rewards = given[f"data/{place}/rewards"].tolist()
            returns.append(discounted(rewards, case["gamma"]))
            sums.append(sum(rewards))
            found[f"{episode:04d}/actions/{name}"] = played[-1].actions
            found[f"{episode:04d}/log_probs/{name}"] = played[-1].log_probs
        advantages = normalized(returns, dtype)
        losses = [(-each.log_probs * a).sum() for each, a in zip(played, advantages, strict=True)]
        gradients = added([each.gradients(-a) for each, a in zip(played, advantages, strict=True)])
        p = adam.step(p, gradients)
        running = 0.05 * min(sums) + 0.95 * running
        found[f"{episode:04d}/loss/policy"] = np.array(sum(losses), dtype)
        found[f"{episode:04d}/reward/episode"] = np.array(min(sums))
        found[f"{episode:04d}/reward/running"] = np.array(running)
        found |= {f"{episode:04d}/gradient/{name}": array for name, array in gradients.items()}
        found |= {f"{episode:04d}/parameter/{name}": array for name, array in p.items()}
    return found


def normalized(returns: list[list[float]], dtype: Any) -> list[Any]:
    """All observers' returns together: mean 0 and variance 1. The denominator has float32's epsilon in any dtype."""
    flat = np.array([value for each in returns for value in each], dtype)
    away = flat - flat.mean()
    scaled = away / (np.sqrt((away * away).mean()) + dtype.type(np.finfo(np.float32).eps))
    return np.split(scaled, np.cumsum([len(each) for each in returns])[:-1])


if __name__ == "__main__":
    main(train)
