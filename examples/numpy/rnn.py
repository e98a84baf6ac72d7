"""``rnn`` in NumPy: embedding, LSTM and decoder, with dropout's factors as they are given."""

from __future__ import annotations

from typing import Any

import numpy as np
from layers import cross_entropy
from tensors import Arrays, main

Array = np.ndarray[Any, Any]


def train(case: dict[str, Any], given: Arrays) -> Arrays:
    p = {name.removeprefix("initial/"): array for name, array in given.items() if name.startswith("initial/")}
    dtype = p["emb_table/encoder.weight"].dtype
    found: Arrays = {}
    for step in range(case["steps"]):
        if step % case["batches"] == 0:  # an epoch begins
            state = np.zeros((2, case["nlayers"], case["batch_size"], case["nhid"]), dtype)
        masks = {part: given.get(f"draws/{part}/{step:04d}") for part in ("emb_table", "rnn", "decoder")}
        tokens, target = (given[f"data/trainer/{step:04d}/{name}"] for name in ("tokens", "target"))
        loss, gradients, state = run(case, p, tokens, target, state, masks)
        found[f"{step:04d}/loss/trainer"] = loss
        for name, gradient in gradients.items():
            p[name] = p[name] - dtype.type(case["lr"]) * gradient
            found[f"{step:04d}/gradient/{name}"] = gradient
            found[f"{step:04d}/parameter/{name}"] = p[name]
    return found


def dropped(x: Array, mask: Array | None) -> Array:
    return x if mask is None else x * mask


def run(
    case: dict[str, Any], p: Arrays, tokens: Array, target: Array, state: Array, masks: dict[str, Any]
) -> tuple[Any, Arrays, Array]:
    """Loss, gradients and the next state, a constant in the next step. ``tokens`` are (sequence, batch_size)."""
    between = masks["rnn"]
    x = dropped(p["emb_table/encoder.weight"][tokens], masks["emb_table"])
    kept, states = [], []
    for layer in range(case["nlayers"]):
        out, last, memory = layer_forward(p, layer, x, state[0, layer], state[1, layer])
        kept.append(memory)
        states.append(last)
        x = dropped(out, between[layer]) if between is not None and layer + 1 < case["nlayers"] else out
    rows = dropped(x, masks["decoder"]).reshape(-1, case["nhid"])
    scores = rows @ p["decoder/decoder.weight"].T + p["decoder/decoder.bias"]
    loss, g = cross_entropy(scores, target.reshape(-1))
    gradients = {"decoder/decoder.weight": g.T @ rows, "decoder/decoder.bias": g.sum(0)}
    g_x = dropped((g @ p["decoder/decoder.weight"]).reshape(x.shape), masks["decoder"])
    for layer in range(case["nlayers"] - 1, -1, -1):
        if between is not None and layer + 1 < case["nlayers"]:
            g_x = g_x * between[layer]
        g_x, found = layer_backward(p, layer, g_x, kept[layer])
        gradients |= found
    g_x = dropped(g_x, masks["emb_table"])
    table = np.zeros_like(p["emb_table/encoder.weight"])
    np.add.at(table, tokens, g_x)
    gradients["emb_table/encoder.weight"] = table
    return loss, gradients, np.array(states).transpose(1, 0, 2, 3)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def layer_forward(p: Arrays, layer: int, x: Array, h: Array, c: Array) -> tuple[Array, Any, list[Any]]:
    """One layer's outputs (sequence, batch_size, nhid). Rows of the weights: input, forget, cell and output gate."""
    w_in, w_hidden, b_in, b_hidden = (p[f"rnn/{name}_l{layer}"] for name in NAMES)
    memory, out = [], []
    for at in x:
        i, f, g, o = np.split(at @ w_in.T + b_in + h @ w_hidden.T + b_hidden, 4, axis=1)
        i, f, g, o = sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)
        before = h, c
        c = f * c + i * g
        h = o * np.tanh(c)
        memory.append((at, *before, i, f, g, o, c))
        out.append(h)
    return np.array(out), (h, c), memory


NAMES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def layer_backward(p: Arrays, layer: int, g_out: Array, memory: list[Any]) -> tuple[Array, Arrays]:
    """The gradients of one layer's input and parameters, from the last token to the first."""
    w_in, w_hidden = p[f"rnn/weight_ih_l{layer}"], p[f"rnn/weight_hh_l{layer}"]
    found = {f"rnn/{name}_l{layer}": np.zeros_like(p[f"rnn/{name}_l{layer}"]) for name in NAMES}
    g_h, g_c, g_x = np.zeros_like(g_out[0]), np.zeros_like(g_out[0]), []
    for at, g_at in zip(reversed(memory), reversed(g_out), strict=True):
        x, h, c_before, i, f, g, o, c = at
        g_h = g_h + g_at
        t = np.tanh(c)
        g_c = g_c + g_h * o * (1 - t * t)
        gates = [g_c * g * i * (1 - i), g_c * c_before * f * (1 - f), g_c * i * (1 - g * g), g_h * t * o * (1 - o)]
        joined = np.concatenate(gates, axis=1)
        for name, gradient in zip(NAMES, (joined.T @ x, joined.T @ h, joined.sum(0), joined.sum(0)), strict=True):
            found[f"rnn/{name}_l{layer}"] += gradient
        g_x.append(joined @ w_in)
        g_h, g_c = joined @ w_hidden, g_c * f
    return np.array(g_x[::-1]), found


if __name__ == "__main__":
    main(train)
