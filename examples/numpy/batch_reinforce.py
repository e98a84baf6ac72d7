"""``batch_reinforce`` in NumPy, on recorded episodes, which go on in a new start of the environment when one ends."""

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
        played, returns, first = [], [], []
        for name in names:
            place = f"{name}/{episode:04d}"
            played.append(recorded(p, given, place))
            ends = given[f"data/{place}/ends"]
            returns.append(by_start(given[f"data/{place}/rewards"], ends, case["gamma"]).astype(dtype))
            first.append(int(ends.argmax()) + 1)
        weights = [-each / dtype.type(len(names)) for each in returns]
        loss = sum((each.log_probs * w).sum() for each, w in zip(played, weights, strict=True))
        gradients = added([each.gradients(w) for each, w in zip(played, weights, strict=True)])
        p = adam.step(p, gradients)
        reward = sum(first) / len(first)  # the mean length of the first starts
        running = 0.5 * reward + 0.5 * running
        found[f"{episode:04d}/steps/actions"] = np.stack([each.actions for each in played], axis=1)
        found[f"{episode:04d}/steps/log_probs"] = np.stack([each.log_probs for each in played], axis=1)
        found[f"{episode:04d}/loss/policy"] = np.array(loss, dtype)
        found[f"{episode:04d}/reward/episode"] = np.array(reward)
        found[f"{episode:04d}/reward/running"] = np.array(running)
        found |= {f"{episode:04d}/gradient/{name}": array for name, array in gradients.items()}
        found |= {f"{episode:04d}/parameter/{name}": array for name, array in p.items()}
    return found


def by_start(rewards: Any, ends: Any, gamma: float) -> Any:
    """Discounted returns, each start of the environment by itself."""
    starts = np.split(rewards, np.flatnonzero(ends) + 1)
    return np.array([value for start in starts for value in discounted(start.tolist(), gamma)])


if __name__ == "__main__":
    main(train)
