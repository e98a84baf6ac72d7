"""The parameter server in NumPy, from the formulas: linear regression by SGD whose gradients are one update old.

    loss = mean((X Wᵀ + b - T)²),   dW = 2/n Rᵀ X,   db = 2/n Σ R,   n the elements of R = X Wᵀ + b - T
    W ← W - lr dW

With ``staleness`` 1 a worker computes its next gradients before it takes the weights that its last ones have changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from reference.parameter_server import Case
from reference.trace import Trace
from tests.support.numpy_draws import Array, Draws, Notes

PULL, PUSH = 0, 1


class Worker:
    """One worker's batches, the weights that it took last, and gradients that it has yet to send."""

    def __init__(self, case: Case, name: str) -> None:
        self.case, self.name = case, name
        self.batches = self._batches()
        self.weights: dict[str, Array] = {}
        self.ready: tuple[Array, dict[str, Array]] | None = None

    def _batches(self) -> Iterator[tuple[Array, Array]]:
        case, draws = self.case, Draws(self.case.seed, self.name)
        teacher = Draws(case.seed, "teacher").normal(case.inputs, case.outputs).astype(case.dtype)
        for _ in range(case.steps):
            data = draws.normal(case.batch_size, case.inputs).astype(case.dtype)
            yield data, data @ teacher

    def gradients(self) -> tuple[Array, dict[str, Array]]:
        data, target = next(self.batches)
        rest = data @ self.weights["weight"].T + self.weights["bias"] - target
        slope = 2 * rest / rest.size
        return np.mean(rest**2), {"weight": slope.T @ data, "bias": slope.sum(0)}

    def pull(self, weights: Mapping[str, Array]) -> None:
        if self.weights and self.case.staleness == 1:
            self.ready = self.gradients()
        self.weights = dict(weights)

    def push(self) -> tuple[Array, dict[str, Array]]:
        sent, self.ready = self.ready or self.gradients(), None
        return sent


def train(case: Case, start: Mapping[str, Array], events: Array | None = None, kind: type[Worker] = Worker) -> Trace:
    """Train from ``start``; ``events`` (n, 2) are pulls and pushes with the worker's number, by turns if None.

    ``kind`` makes the workers; tests put wrong ones there.
    """
    order = np.array([(PULL, 0), (PUSH, 0)] * case.steps) if events is None else events
    workers = [kind(case, f"worker{index}") for index in range(1, case.workers + 1)]
    weights, notes, step = dict(start), Notes(), 0
    notes.put("initial", weights)
    for what, index in order:
        if what == PULL:
            workers[index].pull(weights)
            continue
        loss, gradients = workers[index].push()
        weights = {name: each - np.asarray(case.lr, case.dtype) * gradients[name] for name, each in weights.items()}
        notes.put(f"{step:04d}/loss", {workers[index].name: loss})
        notes.put(f"{step:04d}/gradient", gradients)
        notes.put(f"{step:04d}/parameter", weights)
        step += 1
    notes.put("order", {"events": order.astype(np.int64)})
    return notes.trace(case)
