"""A language model in two processes: embedding and decoder on a server, LSTM on the trainer.

Source: seed 000, section 3 (distributed RNN), whose data is uninitialised memory and whose loss is taken over the
wrong axis (S0.19, S0.20).

Roles: ``ps`` holds `EmbeddingTable` and `Decoder`; ``trainer`` holds the LSTM, drives every step and returns the
trace. Tokens are the bytes of a text, (sequence, batch_size) to a batch, and the target of each is the byte that
follows it. An epoch is the same ``batches`` batches, which follow each other in the text. The hidden state is zero at
the start of an epoch and carried, detached, from batch to batch; published is a random one each step (S0.21).

Dropout: each part draws its masks on its own role, as published (S0.22), but from the seed, the part's name and the
step. So bits are equal with dropout as without, and a call that arrives twice draws the same again.

The published sizes are the defaults. They are a toy: in their 50 steps the loss of an epoch falls from 3.59 to 3.47.
``ninp=32 nhid=64 nlayers=1 dropout=0 lr=2 steps=400`` learns its batches by heart (0.02).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed.autograd as dist_autograd  # the module: `context` alone has no `context` (S0.18)
import torch.distributed.rpc as rpc
from torch import nn, optim
from torch.distributed.optim import DistributedOptimizer
from torch.distributed.rpc import RRef

import reference.trace.case
from reference.rpc.timeouts import rpc_timeout
from reference.trace.case import number
from reference.trace.trace import Recorder, Trace
from reference.training.corpus import Corpus, read_text
from reference.training.rng import build_seeded, drawn
from reference.training.threads import one_thread
from reference.training.training_case import TrainingCase

Hidden = tuple[torch.Tensor, torch.Tensor]
Named = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Case(TrainingCase):
    """The tutorial's numbers: 10 epochs of 5 batches, 3 sequences of 5 tokens, 4 layers of 3 cells."""

    steps: int = number(50, "optimizer steps; published: 10 epochs", at_least=1)
    batches: int = number(5, "batches of an epoch", at_least=1, at_most=2**20)
    text: str = reference.trace.case.text("", "file whose bytes are the tokens; empty: the one shipped")
    sequence: int = number(5, "tokens of a sequence", at_least=1, at_most=1024)
    batch_size: int = number(3, "sequences of a batch", at_least=1, at_most=1024)
    ninp: int = number(2, "numbers of a token's embedding", at_least=1, at_most=4096)
    nhid: int = number(3, "cells of a layer", at_least=1, at_most=4096)
    nlayers: int = number(4, "layers of the LSTM", at_least=1, at_most=64)
    dropout: float = number(0.5, "share of the values that dropout sets to zero", at_least=0.0, at_most=1.0)
    lr: float = number(0.05, "learning rate of SGD", at_least=0.0)

    def validate(self) -> None:
        try:
            text = read_text(self.text)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            self.require(False, "text", f"the name of a file that can be read ({why})")
        needed = max(self.batch_size, self.sequence + 1)
        self.require(len(text) >= needed and len(set(text)) >= 2, "text", f"{needed} bytes or more, not all the same")


class EmbeddingTable(nn.Module):
    """Runs on ``ps``: tokens (sequence, batch_size) to vectors (sequence, batch_size, ninp)."""

    def __init__(self, ntoken: int, ninp: int, dropout: float) -> None:
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(ntoken, ninp)

    def forward(self, input: torch.Tensor, seed: int, step: int) -> torch.Tensor:
        """The masks are those of ``seed`` and ``step``."""
        with drawn(seed, f"emb_table/{step}"):
            result: torch.Tensor = self.drop(self.encoder(input))
        return result


class Decoder(nn.Module):
    """Runs on ``ps``: outputs (sequence, batch_size, nhid) to scores (sequence, batch_size, ntoken)."""

    def __init__(self, ntoken: int, nhid: int, dropout: float) -> None:
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.decoder = nn.Linear(nhid, ntoken)

    def forward(self, output: torch.Tensor, seed: int, step: int) -> torch.Tensor:
        """The masks are those of ``seed`` and ``step``."""
        with drawn(seed, f"decoder/{step}"):
            result: torch.Tensor = self.decoder(self.drop(output))
        return result


def parts(case: Case, ntoken: int) -> dict[str, tuple[Any, ...]]:
    """The three parts of the model: what `build_seeded` is called with."""
    inner = case.dropout if case.nlayers > 1 else 0.0  # an LSTM drops between its layers only
    return {
        "emb_table": (EmbeddingTable, ntoken, case.ninp, case.dropout),
        "rnn": (nn.LSTM, case.ninp, case.nhid, case.nlayers, True, False, inner),
        "decoder": (Decoder, ntoken, case.nhid, case.dropout),
    }


def _call_method(method: Callable[..., Any], rref: RRef[Any], *args: object) -> Any:
    """Runs on the owner."""
    return method(rref.local_value(), *args)


def _remote_method(method: Callable[..., Any], rref: RRef[Any], *args: object) -> Any:
    """Call ``method`` of the object behind ``rref`` where it lives, in the caller's autograd context (S0.17)."""
    return rpc.rpc_sync(rref.owner(), _call_method, args=(method, rref, *args))


def _parameter_rrefs(module: nn.Module) -> list[RRef[Any]]:
    """Runs on the owner: fetched elsewhere, a parameter would be a detached copy (S3.3)."""
    return [RRef(parameter) for parameter in module.parameters()]


def _values(module: nn.Module) -> Named:
    """Runs on the owner: the parameters as they are now."""
    return {name: parameter.detach() for name, parameter in module.named_parameters()}


def _gradients(module: nn.Module, context_id: int) -> Named:
    """Runs on the owner: the gradients in that context. They never are in ``.grad``."""
    gradients = dist_autograd.get_gradients(context_id)  # type: ignore[attr-defined]
    return {name: gradients[parameter] for name, parameter in module.named_parameters()}


class RNNModel(nn.Module):
    """Runs on ``trainer``; embedding and decoder live on ``ps``."""

    def __init__(self, ps: str, case: Case, ntoken: int) -> None:
        super().__init__()
        self.seed = case.seed
        made = parts(case, ntoken)
        seeded: dict[str, Any] = {name: {"seed": case.seed, "name": name, "dtype": case.dtype} for name in made}
        self.emb_table_rref = rpc.remote(ps, build_seeded, args=made["emb_table"], kwargs=seeded["emb_table"])
        self.rnn: nn.LSTM = build_seeded(*made["rnn"], **seeded["rnn"])
        self.decoder_rref = rpc.remote(ps, build_seeded, args=made["decoder"], kwargs=seeded["decoder"])
        self.parts = {"emb_table": self.emb_table_rref, "rnn": RRef(self.rnn), "decoder": self.decoder_rref}

    def forward(self, input: torch.Tensor, hidden: Hidden, step: int) -> tuple[torch.Tensor, Hidden]:
        """Scores (sequence, batch_size, ntoken) and the hidden state after tokens (sequence, batch_size)."""
        emb = _remote_method(EmbeddingTable.forward, self.emb_table_rref, input, self.seed, step)
        with drawn(self.seed, f"rnn/{step}"):
            output, hidden = self.rnn(emb, hidden)
        decoded = _remote_method(Decoder.forward, self.decoder_rref, output, self.seed, step)
        return decoded, hidden

    def parameter_rrefs(self) -> list[RRef[Any]]:
        """All parameters, each on its owner (S0.16)."""
        return [rref for part in self.parts.values() for rref in _remote_method(_parameter_rrefs, part)]

    def values(self) -> Named:
        """All parameters' values, by name."""
        return self._collect(_values)

    def gradients(self, context_id: int) -> Named:
        """All parameters' gradients in this context, by name."""
        return self._collect(_gradients, context_id)

    def _collect(self, method: Callable[..., Named], *args: object) -> Named:
        found = {part: _remote_method(method, rref, *args) for part, rref in self.parts.items()}
        return {f"{part}/{name}": tensor for part, named in found.items() for name, tensor in named.items()}


def get_next_batch(case: Case, corpus: Corpus) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """One epoch: tokens and the tokens that follow them, (sequence, batch_size) each."""
    for index in range(case.batches):
        yield corpus.batch(index, case.sequence, case.batch_size)


def first_hidden(case: Case) -> Hidden:
    """Zeros, (nlayers, batch_size, nhid) each."""
    zeros = torch.zeros(case.nlayers, case.batch_size, case.nhid, dtype=getattr(torch, case.dtype))
    return zeros, zeros.clone()


def batches(case: Case, corpus: Corpus) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
    """All steps, epoch after epoch: step, tokens, targets."""
    step = 0
    while step < case.steps:
        for data, target in get_next_batch(case, corpus):
            if step < case.steps:
                yield step, data, target
            step += 1


def loss_of(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Mean cross entropy over all tokens of a batch. The classes are the last axis, not the second (S0.20)."""
    return nn.functional.cross_entropy(output.reshape(-1, output.shape[-1]), target.reshape(-1))


def run_trainer(case: Case, corpus: Corpus) -> Trace:
    """Runs on ``trainer``.

    Raises:
        RuntimeError: ``ps`` is lost, failed, or did not answer within ``case.timeout`` seconds.
    """
    with rpc_timeout(case.timeout):
        model = RNNModel("ps", case, corpus.ntoken)
        opt = DistributedOptimizer(optim.SGD, model.parameter_rrefs(), lr=case.lr)
        recorder = Recorder(case, model.values())
        for step, data, target in batches(case, corpus):
            if step % case.batches == 0:
                hidden = first_hidden(case)
            with dist_autograd.context() as context_id:
                output, hidden = model(data, hidden, step)
                loss = loss_of(output, target)
                dist_autograd.backward(context_id, [loss])  # type: ignore[attr-defined]
                gradients = model.gradients(context_id)  # the context, and with it they, end with this block
                opt.step(context_id)
            hidden = (hidden[0].detach(), hidden[1].detach())
            recorder.step(step, {"trainer": loss}, model.values(), gradients)
        return recorder.trace()


@dataclass(frozen=True)
class RunTrainer:
    """What ``trainer`` runs. The text is read where the roles are made."""

    case: Case
    text: bytes

    def __call__(self) -> Trace:
        return run_trainer(self.case, Corpus(self.text))


def serve() -> None:
    """What ``ps`` runs: it answers until the common shutdown."""


def roles(case: Case) -> dict[str, Callable[[], object]]:
    return {"ps": serve, "trainer": RunTrainer(case, read_text(case.text))}


@one_thread()
def train_locally(case: Case, replay: Trace | None = None) -> Trace:
    """The twin: the three parts in one process, plain SGD, and the same masks."""
    corpus = Corpus(read_text(case.text))
    made = parts(case, corpus.ntoken)
    model: Any = nn.ModuleDict(
        {name: build_seeded(*part, seed=case.seed, name=name, dtype=case.dtype) for name, part in made.items()}
    )
    optimizer = optim.SGD(model.parameters(), lr=case.lr)
    recorder = Recorder(case, named(model))
    for step, data, target in batches(case, corpus):
        if step % case.batches == 0:
            hidden = first_hidden(case)
        emb = model["emb_table"](data, case.seed, step)
        with drawn(case.seed, f"rnn/{step}"):
            output, hidden = model["rnn"](emb, hidden)
        decoded = model["decoder"](output, case.seed, step)
        loss = loss_of(decoded, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        hidden = (hidden[0].detach(), hidden[1].detach())
        recorder.step(step, {"trainer": loss}, named(model))
    return recorder.trace()


def named(model: nn.Module) -> dict[str, Any]:
    """The twin's parameters under the names that `RNNModel` gives them."""
    return {name.replace(".", "/", 1): parameter for name, parameter in model.named_parameters()}
