"""Each loss, gradient and update as one flat sum over products of its factors, in a drawn order, in NumPy.

A correct program may compute it so, by one `einsum`. It is drawn how far down a factor that is itself a sum is written
out: at the furthest to data, parameters and the masks of ReLUs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from reference import batch_parameter_server, dist_autograd, parameter_server, pipeline
from reference.trace import Trace

Array = np.ndarray[Any, Any]
Factor = tuple[str, Array]  # the letters of its dimensions, as in `einsum`
Named = dict[str, Array]


class Flat:
    """Sums of products in orders drawn from ``seed``; from the smallest up or the largest down, they go farthest."""

    def __init__(self, seed: int) -> None:
        self.draws = np.random.default_rng(seed)

    def terms(self, kept: str, *factors: Factor) -> Array:
        """The terms of the sum over all letters except ``kept``: one product per row, its factors in any order."""
        chosen = [factors[place] for place in self.draws.permutation(len(factors))]
        summed = "".join(sorted({letter for letters, _ in factors for letter in letters} - set(kept)))
        spelled = ",".join(letters for letters, _ in chosen)
        found: Array = np.einsum(f"{spelled}->{summed}{kept}", *(array for _, array in chosen))
        return found.reshape(-1, *found.shape[len(summed) :])

    def added(self, *rows: Array) -> Array:
        """Add one row after the other."""
        every, way = np.concatenate(rows), self.draws.integers(3)
        every = np.sort(every, axis=0)[:: way * 2 - 1] if way < 2 else every[self.draws.permutation(len(every))]
        return np.asarray(np.cumsum(every, axis=0)[-1])


class Layers:
    """Linear layers with ReLU between them: ``values`` are bias, weight, bias, weight, ...

    The loss is the sum of outputs times ``slope`` (n, classes); ``scale`` is one more factor of each gradient.
    """

    def __init__(self, flat: Flat, values: Sequence[Array], x: Array, slope: Array, scale: float) -> None:
        self.flat, self.slope, self.scale = flat, slope, scale
        self.layers = list(zip(values[1::2], values[::2], strict=True))
        self.letters = "abcdefgh"[: len(self.layers) + 1]  # of each layer's inputs, and of the outputs
        self.numbers = [x]  # what each layer is given
        for weight, bias in self.layers[:-1]:
            self.numbers.append(np.maximum(self.numbers[-1] @ weight.T + bias, 0))

    def given(self, place: int) -> list[list[Factor]]:
        """Products that add up to what a layer is given: as one number, or as the outputs of the layer before."""
        if place == 0 or self.flat.draws.integers(2):
            return [[(f"n{self.letters[place]}", self.numbers[place])]]
        return [[self.mask(place), *product] for product in self.outputs(place - 1)]

    def outputs(self, place: int) -> list[list[Factor]]:
        above, (weight, bias) = self.letters[place + 1], self.layers[place]
        link = (above + self.letters[place], weight)
        return [[(above, bias)], *([link, *product] for product in self.given(place))]

    def mask(self, place: int) -> Factor:
        return f"n{self.letters[place]}", (self.numbers[place] > 0) * 1.0

    def loss(self) -> Array:
        end = (f"n{self.letters[-1]}", self.slope)
        return self.flat.added(*(self.flat.terms("", end, *each) for each in self.outputs(len(self.layers) - 1)))

    def gradients(self) -> list[Array]:
        """The terms of the gradients of bias, weight, bias, weight, ..."""
        chain: list[Factor] = [("", np.array(self.scale)), (f"n{self.letters[-1]}", self.slope)]
        found: list[Array] = []
        for place in reversed(range(len(self.layers))):
            above, below = self.letters[place + 1], self.letters[place]
            weight = [self.flat.terms(above + below, *chain, *each) for each in self.given(place)]
            found = [self.flat.terms(above, *chain), np.concatenate(weight), *found]
            chain += [(above + below, self.layers[place][0]), self.mask(place)]
        return found


def linear(case: Any, trace: Trace, names: Sequence[str], each: Sequence[Iterator[Any]], seed: int) -> Iterator[str]:
    """Names of tensors that differ from ``trace``, for trainers ``names``, their batches, and SGD with momentum.

    Every step starts from the trace's parameters, because these are recorded numbers in every program.
    """
    flat, tensors = Flat(seed), {name: tensor.numpy() for name, tensor in trace.tensors.items()}
    keys = [name.removeprefix("initial/") for name in tensors if name.startswith("initial/")]
    scale, lr, past = 1 / len(names), case.lr, [np.empty((0, *tensors[f"initial/{key}"].shape)) for key in keys]
    for step in range(case.steps):
        values = [tensors[f"{step - 1:04d}/parameter/{key}" if step else f"initial/{key}"] for key in keys]
        parts = []
        for name, batch in zip(names, each, strict=True):
            x, labels = (tensor.numpy() for tensor in next(batch))
            model = Layers(flat, values, x.reshape(len(x), -1), labels + 1, scale)
            parts.append(model.gradients())
            yield from differing(tensors, f"{step:04d}/loss/{name}", model.loss())
        for place, (key, *found) in enumerate(zip(keys, *parts, strict=True)):
            now = np.concatenate(found)
            past[place] = np.concatenate((getattr(case, "momentum", 0.0) * past[place], now))
            yield from differing(tensors, f"{step:04d}/gradient/{key}", flat.added(now))
            updated = flat.added(values[place][None], -lr * past[place])
            yield from differing(tensors, f"{step:04d}/parameter/{key}", updated)


def differing(tensors: Named, name: str, wanted: Array) -> Iterator[str]:
    if not np.array_equal(tensors[name], wanted):
        yield name


def batch_server(case: Any, trace: Trace, seed: int = 0) -> list[str]:
    names = batch_parameter_server.trainer_names(case)
    each = [batch_parameter_server.Trainer(case, name).get_next_batch() for name in names]
    return list(linear(case, trace, names, each, seed))


def halves(case: Any, trace: Trace, seed: int = 0) -> list[str]:
    return list(linear(case, trace, ["master"], [pipeline.batches(case)], seed))


def server(case: Any, trace: Trace, seed: int = 0) -> list[str]:
    """The parameter server without staleness, with workers in turn."""
    flat, tensors, found = Flat(seed), {name: tensor.numpy() for name, tensor in trace.tensors.items()}, list[str]()
    names = parameter_server.worker_names(case)
    each = [parameter_server.batches(case, name) for name in names]
    weight, bias = tensors["initial/weight"], tensors["initial/bias"]
    for push in range(case.steps * case.workers):
        worker = push % case.workers
        x, target = (tensor.numpy() for tensor in next(each[worker]))
        loss = flat.added(
            flat.terms("", ("no", target), ("oi", weight), ("ni", x)), flat.terms("", ("no", target), ("o", bias))
        )
        terms = {"weight": flat.terms("oi", ("no", target), ("ni", x)), "bias": flat.terms("o", ("no", target))}
        found += differing(tensors, f"{push:04d}/loss/{names[worker]}", loss)
        for name, old in (("weight", weight), ("bias", bias)):
            found += differing(tensors, f"{push:04d}/gradient/{name}", flat.added(terms[name]))
            found += differing(tensors, f"{push:04d}/parameter/{name}", flat.added(old[None], -case.lr * terms[name]))
        weight, bias = (tensors[f"{push:04d}/parameter/{name}"] for name in ("weight", "bias"))
    return found


def contexts(case: Any, trace: Trace, seed: int = 0) -> list[str]:
    """Contexts of distributed autograd: (a + b)² as squares and products of a and b."""
    flat, tensors, found = Flat(seed), {name: tensor.numpy() for name, tensor in trace.tensors.items()}, list[str]()
    before = [tensors[f"initial/{owner}"] for owner in dist_autograd.OWNERS]
    for step in range(case.steps):
        (a, b), passed = before, []
        for context in range(case.contexts):
            times = context + 1
            squares = [times * a * a, 2 * times * a * b, times * b * b]
            loss = flat.added(*(square.reshape(-1) for square in squares))
            found += differing(tensors, f"{step:04d}/loss/context{context}", loss)
            passed += [2 * times * a, 2 * times * b]
            for owner in dist_autograd.OWNERS:
                gradient = flat.added(np.stack(passed[-2:]))
                found += differing(tensors, f"{step:04d}/gradient/context{context}/{owner}", gradient)
        for owner, old in zip(dist_autograd.OWNERS, before, strict=True):
            updated = flat.added(old[None], -case.lr * np.stack(passed))
            found += differing(tensors, f"{step:04d}/parameter/{owner}", updated)
        before = [tensors[f"{step:04d}/parameter/{owner}"] for owner in dist_autograd.OWNERS]
    return found
