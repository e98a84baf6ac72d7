"""The scene of ``rnn``: one gradient per step, of one batch and of the hidden state that the last step left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from reference import load
from reference.explain.scene import Batch, Part, Scene, Variant, gradients
from reference.trace.trace import Named, Trace
from reference.training.corpus import Corpus
from reference.training.rng import seeded

Hidden = tuple[torch.Tensor, torch.Tensor]


class RnnScene(Scene):
    """The trainer's loss; its hidden state goes on from step to step and is zero at the start of an epoch."""

    summed, word = False, "trainer"

    def __init__(self, case: Any, twin: Trace) -> None:
        super().__init__(case, twin)
        self.module = load("rnn")
        self.corpus = Corpus(case.read())
        self.batches = [(data, target) for _, data, target in self.module.batches(case, self.corpus)]

    def names(self, step: int) -> Sequence[str]:
        return ["trainer"]

    def batch(self, name: str, step: int) -> Batch | None:
        return self.batches[step] if 0 <= step < len(self.batches) else None

    def part(self, name: str, parameters: Named, batch: Batch, step: int) -> Part:
        return self._part(parameters, batch, step, self._hidden(step))

    def variants(self, step: int) -> Iterator[Variant]:
        zeros = self.module.first_hidden(self.case)
        if step % self.case.batches:
            text = "with a hidden state of zeros, wanted that of the last step"
            yield "hidden-lost", text, partial(self._with_hidden, step, zeros)
        elif step:
            text = "with the last epoch's hidden state, wanted zeros"
            yield "hidden-kept", text, partial(self._with_hidden, step, self._after(step - 1))

    def _with_hidden(self, step: int, hidden: Hidden, name: str) -> Part | None:
        parameters = self.parameters(step, name)
        return self._part(parameters, self.batches[step], step, hidden) if parameters else None

    def _part(self, parameters: Named, batch: Batch, step: int, hidden: Hidden) -> Part:
        model = self._model(parameters)
        loss = self.module.criterion(self._forward(model, batch[0], step, hidden)[0], batch[1])
        found = gradients(loss, dict(self.module.named(model)))
        return loss.detach(), found

    def _model(self, parameters: Named) -> Any:
        case, ntoken = self.case, self.corpus.ntoken
        parts = {
            "emb_table": self.module.EmbeddingTable(ntoken, case.ninp, case.dropout),
            "rnn": self.module.lstm(case.ninp, case.nhid, case.nlayers, case.dropout),
            "decoder": self.module.Decoder(ntoken, case.nhid, case.dropout),
        }
        model = nn.ModuleDict(parts).to(case.torch_dtype)
        with torch.no_grad():
            for name, parameter in self.module.named(model).items():
                parameter.copy_(parameters[name])
        return model

    def _forward(self, model: Any, data: torch.Tensor, step: int, hidden: Hidden) -> tuple[torch.Tensor, Hidden]:
        emb = model["emb_table"](data, self.case.seed, step)
        with seeded(self.case.seed, f"rnn/{step}"):
            output, after = model["rnn"](emb, hidden)
        return model["decoder"](output, self.case.seed, step), (after[0].detach(), after[1].detach())

    def _hidden(self, step: int) -> Hidden:
        """The hidden state before ``step``, computed from the start of its epoch."""
        if step % self.case.batches == 0:
            found: Hidden = self.module.first_hidden(self.case)
            return found
        return self._after(step - 1)

    def _after(self, step: int) -> Hidden:
        parameters = self.parameters(step, "trainer")
        assert parameters is not None
        return self._forward(self._model(parameters), self.batches[step][0], step, self._hidden(step))[1]
