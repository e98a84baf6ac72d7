"""The factors by which ``rnn`` multiplies under dropout, as tensors: 0, or 1 / (1 - p)."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

from reference.training.rng import seeded


def dropout_factors(case: Any) -> dict[str, torch.Tensor]:
    """Draw the factors of every step, as torch draws them in a forward pass; nothing if the case drops nothing.

    ``draws/emb_table/STEP`` (sequence, batch_size, ninp) are for the embeddings, ``draws/rnn/STEP``
    (nlayers - 1, sequence, batch_size, nhid) for the outputs of each layer but the last, and ``draws/decoder/STEP``
    (sequence, batch_size, nhid) for those of the last.
    """
    if case.dropout == 0:
        return {}
    places = {"emb_table": (1, case.ninp), "rnn": (case.nlayers - 1, case.nhid), "decoder": (1, case.nhid)}
    found = {}
    for step in range(case.steps):
        for part, (count, width) in places.items():
            shape = (case.sequence, case.batch_size, width)
            with seeded(case.seed, f"{part}/{step}"):
                drawn = [F.dropout(torch.ones(shape, dtype=case.torch_dtype), case.dropout) for _ in range(count)]
            if drawn:
                found[f"draws/{part}/{step:04d}"] = torch.stack(drawn) if part == "rnn" else drawn[0]
    return found
