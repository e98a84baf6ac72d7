"""The agent of ``reinforce`` in NumPy, from the formulas: all steps of an episode in one product, no autograd.

    h = d * (s W1ᵀ + b1),   p = softmax(relu(h) W2ᵀ + b2),   G(t) = r(t) + gamma G(t + 1)
    w = (G - mean) / (deviation + eps),   loss = - Σ w log p(a)
    dz = w (p - onehot(a)),   dW2 = dzᵀ relu(h),   dh = d * (h > 0) * (dz W2),   dW1 = dhᵀ s

Mean and deviation are over all observers' steps, of which there are n; Adam follows. Everything is in the case's dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from reference.reinforce import Case
from reference.trace import Trace
from tests.formulas import agents
from tests.support.numpy_draws import Array, Notes

Parameters = dict[str, Array]
Sum = Callable[[Array], Any]
Discounted = Callable[[Array, Any], Array]
EPS = np.finfo(np.float32).eps


def loop(terms: Array) -> Any:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def backwards(terms: Array) -> Any:
    return loop(terms[::-1])


def two_pass(flat: Array, add: Sum) -> Array:
    """Standardize, with the variance as the mean of squared deviations."""
    away = flat - add(flat) / flat.dtype.type(len(flat))
    return np.asarray(away / (np.sqrt(add(away * away) / flat.dtype.type(len(flat))) + flat.dtype.type(EPS)))


def one_pass(flat: Array, add: Sum) -> Array:
    """Standardize, with the variance E[G²] - E[G]², which cancels where the deviation is much less than the mean."""
    count = flat.dtype.type(len(flat))
    mean = add(flat) / count
    return np.asarray((flat - mean) / (np.sqrt(add(flat * flat) / count - mean * mean) + flat.dtype.type(EPS)))


def recursive(rewards: Array, gamma: Any) -> Array:
    """Compute returns from the last step to the first, as the formula says."""
    found = rewards.copy()
    for step in range(len(found) - 2, -1, -1):
        found[step] = rewards[step] + gamma * found[step + 1]
    return found


def by_powers(rewards: Array, gamma: Any) -> Array:
    """Compute Σ gamma^k r(t + k) for each step by itself."""
    powers = gamma ** np.arange(len(rewards), dtype=rewards.dtype)
    return np.array([loop(powers[: len(rewards) - step] * rewards[step:]) for step in range(len(rewards))])


@dataclass
class Adam:
    """Kingma's and Ba's, with the means' bias corrected."""

    lr: Any
    step: int = 0
    means: dict[str, tuple[Array, Array]] = field(default_factory=dict)

    def updated(self, name: str, value: Array, slope: Array) -> Array:
        one = value.dtype.type
        first, second = self.means.get(name, (np.zeros_like(value), np.zeros_like(value)))
        first, second = one(0.9) * first + one(0.1) * slope, one(0.999) * second + one(0.001) * slope * slope
        self.means[name] = first, second
        first, second = first / one(1 - 0.9**self.step), second / one(1 - 0.999**self.step)
        return np.asarray(value - one(self.lr) * first / (np.sqrt(second) + one(1e-8)))


def forward(p: Parameters, states: Array, factors: Array) -> tuple[Array, Array]:
    """The hidden layer before its ReLU (n, 128), and probabilities (n, actions)."""
    hidden = (states @ p["affine1.weight"].T + p["affine1.bias"]) * factors
    scores = np.maximum(hidden, 0) @ p["affine2.weight"].T + p["affine2.bias"]
    raised = np.exp(scores - scores.max(1, keepdims=True))
    return hidden, raised / raised.sum(1, keepdims=True)


def play(case: Case, p: Parameters, env: Any, own: Any) -> tuple[Array, Array, list[int], Array]:
    """States, dropout's factors, actions and rewards of one observer's episode."""
    uniforms, factors = (each.numpy() for each in agents.episode_draws(case, own))
    state, over, states, actions, rewards = env.reset(), False, [], list[int](), []
    while len(actions) < case.n_steps and not over:
        step = len(actions)
        states.append(state.astype(case.dtype))
        _, probs = forward(p, states[-1][None], factors[step : step + 1])
        cumulated = np.cumsum(probs[0].astype(np.float64))
        actions.append(min(int((cumulated <= uniforms[step]).sum()), len(cumulated) - 1))
        state, reward, over = env.step(actions[-1])
        rewards.append(reward)
    return np.stack(states), factors[: len(actions)], actions, np.array(rewards, case.dtype)


def gradients(p: Parameters, states: Array, factors: Array, actions: Array, weights: Array) -> tuple[Any, Parameters]:
    """The loss, and its slope in each parameter."""
    hidden, probs = forward(p, states, factors)
    taken = np.arange(len(actions)), actions
    loss = (-np.log(probs[taken]) * weights).sum()
    slope = probs * weights[:, None]
    slope[taken] -= weights
    inner = (slope @ p["affine2.weight"]) * (hidden > 0) * factors
    of_layers = (("affine1", inner, states), ("affine2", slope, np.maximum(hidden, 0)))
    found = {f"{name}.weight": out.T @ into for name, out, into in of_layers}
    return loss, found | {f"{name}.bias": out.sum(0) for name, out, _ in of_layers}


def chosen_logs(p: Parameters, states: Array, factors: Array, actions: list[int]) -> Array:
    """The log-probability of each action (n,)."""
    _, probs = forward(p, states, factors)
    return np.log(probs[np.arange(len(actions)), actions])


def train(
    case: Case,
    add: Sum = loop,
    normalized: Callable[[Array, Sum], Array] = two_pass,
    discounted: Discounted = recursive,
) -> Trace:
    """The whole trace; ``add`` sums for mean and deviation, and the others say by which form these are computed."""
    values = {name: value.detach().numpy() for name, value in agents.initial_parameters(case).items()}
    envs, owns, adam, running, notes = agents.environments(case), agents.generators(case), Adam(case.lr), 0.0, Notes()
    notes.put("initial", values)
    for episode in range(case.steps):
        played = [play(case, values, *each) for each in zip(envs, owns, strict=True)]
        states, factors, actions, rewards = zip(*played, strict=True)
        returns = [discounted(each, np.dtype(case.dtype).type(case.gamma)) for each in rewards]
        weights = normalized(np.concatenate(returns), add)
        together = np.concatenate(states), np.concatenate(factors), np.concatenate(actions)
        loss, slopes = gradients(values, *together, weights)
        logs = [chosen_logs(values, *each[:3]) for each in played]
        adam.step += 1
        values = {name: adam.updated(name, value, slopes[name]) for name, value in values.items()}
        worst = min(float(each.sum()) for each in rewards)
        running = 0.05 * worst + 0.95 * running
        notes.put(f"{episode:04d}/loss", {"policy": loss})
        notes.put(f"{episode:04d}/gradient", slopes)
        notes.put(f"{episode:04d}/parameter", values)
        notes.put(f"{episode:04d}/reward", {"episode": np.float64(worst), "running": np.float64(running)})
        for kind, of_all, dtype in (
            ("actions", actions, np.int64),
            ("rewards", rewards, np.float64),
            ("log_probs", logs, case.dtype),
        ):
            named = {f"observer{index}": np.array(each, dtype) for index, each in enumerate(of_all, start=1)}
            notes.put(f"{episode:04d}/{kind}", named)
    return notes.trace(case)
