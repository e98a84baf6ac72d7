"""The trace of ``rnn``, from its formula: embedding, LSTM and linear decoder predict the next byte of a text.

Tokens are bytes, numbered by their rank among those that the text has. Sequence b of a batch starts ⌊b n / batch_size⌋
bytes into the text of n bytes, read as a ring, and ``sequence`` bytes later with each further batch; after ``batches``
batches it starts there again. The state is zero then; otherwise it is the last step's, as a constant. The loss is the
mean of -log p(next byte) over all tokens of a batch; then every parameter p becomes p - lr × gradient.

Which generator draws what, each seeded with `seed_of` its name:

- ``emb_table``, ``rnn``, ``decoder``: the parameters of ``nn.Embedding``, ``nn.LSTM`` and ``nn.Linear``, in float32.
- ``emb_table/S``, ``rnn/S``, ``decoder/S`` for step S, from 0: the masks of dropout, all of its values at once. They
  are for the embeddings; for the outputs of each layer but the last, in their order; and for those of the last.

A layer's gates come in the order of torch's documentation: input, forget, cell, output.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.formulas.common import Tensors, copies, default_draws, draws, recorded

Drop = Callable[[torch.Tensor], torch.Tensor]


SHIPPED = Path(__file__).parents[2] / "reference" / "training" / "text.txt"


def trace(case: Any, given: Tensors) -> Tensors:
    """Compute every tensor of the trace of ``case`` from the case's plain numbers alone."""
    text = Path(case.text or SHIPPED).read_bytes()
    p = initial_parameters(case, len(set(text)))
    found, states = copies(p, "initial"), torch.empty(0)
    for step in range(case.steps):
        if step % case.batches == 0:
            states = torch.zeros(2, case.nlayers, case.batch_size, case.nhid, dtype=getattr(torch, case.dtype))
        tokens, targets = batch(case, text, step % case.batches)
        scores, states = forward(case, p, tokens, states.detach(), step)
        loss = F.cross_entropy(scores.flatten(0, 1), targets.flatten())
        gradients = dict(zip(p, torch.autograd.grad(loss, list(p.values())), strict=True))
        with torch.no_grad():
            for name, gradient in gradients.items():
                p[name].sub_(gradient, alpha=case.lr)
        found |= copies(gradients, f"{step:04d}/gradient") | copies(p, f"{step:04d}/parameter")
        found |= copies({"trainer": loss}, f"{step:04d}/loss")
    return recorded(case, found, case.steps - 1)


def initial_parameters(case: Any, ntoken: int) -> Tensors:
    """Drawn in float32 whatever the dtype."""
    layers: dict[str, nn.Module] = {}
    with default_draws(case.seed, "emb_table"):
        layers["emb_table/encoder"] = nn.Embedding(ntoken, case.ninp)
    with default_draws(case.seed, "rnn"):
        layers["rnn"] = nn.LSTM(case.ninp, case.nhid, case.nlayers)
    with default_draws(case.seed, "decoder"):
        layers["decoder/decoder"] = nn.Linear(case.nhid, ntoken)
    return {
        f"{part}{'/' if part == 'rnn' else '.'}{name}": p.detach().to(getattr(torch, case.dtype)).requires_grad_()
        for part, layer in layers.items()
        for name, p in layer.named_parameters()
    }


def batch(case: Any, text: bytes, index: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens and the tokens that follow them, (sequence, batch_size) each."""
    ranks, n = {byte: rank for rank, byte in enumerate(sorted(set(text)))}, len(text)
    places = [
        [b * n // case.batch_size + index * case.sequence + t for b in range(case.batch_size)]
        for t in range(case.sequence + 1)
    ]
    tokens = torch.tensor([[ranks[text[place % n]] for place in row] for row in places])
    return tokens[:-1], tokens[1:]


def forward(
    case: Any, p: Tensors, tokens: torch.Tensor, states: torch.Tensor, step: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores (sequence, batch_size, ntoken), and the new states: the outputs and cells of each layer."""
    values, new = dropout(case, "emb_table", step)(F.embedding(tokens, p["emb_table/encoder.weight"])), []
    between = dropout(case, "rnn", step)
    for layer in range(case.nlayers):
        values = between(values) if layer else values
        values, cell = lstm_layer(p, layer, values, *states[:, layer])
        new.append(torch.stack([values[-1], cell]))
    dropped = dropout(case, "decoder", step)(values)
    return F.linear(dropped, p["decoder/decoder.weight"], p["decoder/decoder.bias"]), torch.stack(new, dim=1)


def dropout(case: Any, part: str, step: int) -> Drop:
    """A value stays with probability 1 - dropout, and is then divided by it; a new mask at each use."""
    own, stays = draws(case.seed, f"{part}/{step}"), 1 - float(case.dropout)

    def drop(values: torch.Tensor) -> torch.Tensor:
        if stays in (0, 1):
            return values * stays
        return values * torch.empty_like(values).bernoulli_(stays, generator=own).div_(stays)

    return drop


def lstm_layer(
    p: Tensors, layer: int, values: torch.Tensor, output: torch.Tensor, cell: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs (sequence, batch_size, nhid), and the last cell."""
    w_in, w_out, b_in, b_out = (p[f"rnn/{kind}_l{layer}"] for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    outputs = []
    for given in F.linear(values, w_in, b_in).unbind():
        i, f, g, o = (F.linear(output, w_out, b_out) + given).chunk(4, dim=1)
        cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
        output = o.sigmoid() * cell.tanh()
        outputs.append(output)
    return torch.stack(outputs), cell
