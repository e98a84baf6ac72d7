"""``rnn``: embedding, LSTM and decoder, with dropout's factors as they are given."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from training import Tree, cross_entropy, dropped, entries, initial, linear, sgd

PARTS = ("emb_table", "rnn", "decoder")
State = list[tuple[jax.Array, jax.Array]]


def train(case: dict[str, Any], given: Tree) -> Tree:
    def loss(p: Tree, state: State, tokens: jax.Array, target: jax.Array, factors: dict[str, Any]) -> Any:
        """The loss, and the state after the last token of (sequence, batch_size)."""
        x, after = dropped(p["emb_table/encoder.weight"][tokens], factors["emb_table"]), []
        for layer, before in enumerate(state):
            if layer and factors["rnn"] is not None:
                x = x * factors["rnn"][layer - 1]
            last, x = lstm(p, layer, before, x)
            after.append(last)
        return cross_entropy(linear(p, "decoder/decoder.", dropped(x, factors["decoder"])), target), after

    computed = jax.jit(jax.value_and_grad(loss, has_aux=True))
    p, trace = initial(given), {}
    for step in range(case["steps"]):
        if step % case["batches"] == 0:  # an epoch begins
            zeros = jnp.zeros((case["batch_size"], case["nhid"]), p["emb_table/encoder.weight"].dtype)
            state: State = [(zeros, zeros)] * case["nlayers"]
        batch = [given[f"data/trainer/{step:04d}/{name}"] for name in ("tokens", "target")]
        factors = {part: given.get(f"draws/{part}/{step:04d}") for part in PARTS}
        (value, state), gradients = computed(p, state, *batch, factors)
        p = sgd(p, gradients, case["lr"])
        trace |= entries(step, loss={"trainer": value}, gradient=gradients, parameter=p)
    return trace


def lstm(p: Tree, layer: int, state: Any, x: jax.Array) -> tuple[Any, jax.Array]:
    """The last state of one layer, and its outputs (sequence, batch_size, nhid)."""
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    w_in, w_hidden, b_in, b_hidden = (p[f"rnn/{name}_l{layer}"] for name in names)

    def cell(state: Any, x: jax.Array) -> Any:
        h, c = state
        i, f, g, o = jnp.split(x @ w_in.T + b_in + h @ w_hidden.T + b_hidden, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    return lax.scan(cell, state, x)
