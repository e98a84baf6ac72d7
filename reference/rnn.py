"""Train a language model in two processes: embedding and decoder on a server, LSTM on the trainer.

Source: seed 000, section 3 (distributed RNN), whose data is uninitialised memory and whose loss is taken over the
wrong axis (S0.19, S0.20).

Roles: ``ps`` holds `EmbeddingTable` and `Decoder`; ``trainer`` holds the LSTM, drives every step and returns the
trace. Tokens are the bytes of a text. A batch has (sequence, batch_size) tokens, and each token's target is the byte
that follows it. Every epoch has the same ``batches`` batches, which follow each other in the text. The hidden state is
zero at the start of an epoch and passes, detached, from batch to batch; the published one is random at each step
(S0.21).

Dropout: each part draws its masks on its own role, as published (S0.22), but from the seed, the part's name and the
step. So the twin draws the same masks, and bits are equal even with dropout.

The defaults are the published sizes, but there are as many tokens as the text has different bytes (published: 10). They
make a toy: in 50 steps the loss of an epoch falls from 3.59 to 3.47. With ``ninp=32 nhid=64 nlayers=1 dropout=0 lr=2
steps=400`` the model learns its batches by heart (loss 0.02).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import torch.distributed.autograd as dist_autograd  # the module: `context` alone has no `context` (S0.18)
import torch.distributed.rpc as rpc
from torch import nn, optim
from torch.distributed.optim import DistributedOptimizer
from torch.distributed.rpc import RRef

from reference.roles import Roles, serve
from reference.rpc.remote_method import _remote_method
from reference.rpc.timeouts import rpc_timeout
from reference.system.text import shown
from reference.trace import checkpoint
from reference.trace.case import choice_field, number_field, text_field
from reference.trace.recorder import Recorder
from reference.trace.trace import Trace
from reference.training.data import Corpus, read_text
from reference.training.placement import one_thread
from reference.training.rng import build_seeded, seeded
from reference.training.training_case import TrainingCase

Hidden = tuple[torch.Tensor, torch.Tensor]
Named = dict[str, torch.Tensor]

# --- The lesson: a model on two roles --------------------------------------------------------------------------------


class EmbeddingTable(nn.Module):
    """Runs on ``ps``: tokens (sequence, batch_size) to vectors (sequence, batch_size, ninp)."""

    def __init__(self, ntoken: int, ninp: int, dropout: float) -> None:
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(ntoken, ninp)

    def forward(self, input: torch.Tensor, seed: int, step: int) -> torch.Tensor:
        """The masks are those of ``seed`` and ``step``."""
        with seeded(seed, f"emb_table/{step}"):
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
        with seeded(seed, f"decoder/{step}"):
            result: torch.Tensor = self.decoder(self.drop(output))
        return result


def lstm(ninp: int, nhid: int, nlayers: int, dropout: float) -> nn.LSTM:
    """Make an LSTM, whose dropout is only between its layers."""
    inner = dropout if nlayers > 1 else 0.0
    return nn.LSTM(ninp, nhid, nlayers, dropout=inner)


class RNNModel(nn.Module):
    """Runs on ``trainer``; its embedding and its decoder live on ``ps``."""

    def __init__(
        self, ps: str, *, ntoken: int, ninp: int, nhid: int, nlayers: int, dropout: float, seed: int, dtype: str
    ) -> None:
        super().__init__()
        self.seed = seed
        drawn_by: dict[str, Any] = {"seed": seed, "dtype": dtype}
        embedding, decoder = (EmbeddingTable, ntoken, ninp, dropout), (Decoder, ntoken, nhid, dropout)
        self.emb_table_rref = rpc.remote(ps, build_seeded, args=embedding, kwargs={"name": "emb_table", **drawn_by})
        self.rnn = build_seeded(lstm, ninp, nhid, nlayers, dropout, name="rnn", **drawn_by)
        self.decoder_rref = rpc.remote(ps, build_seeded, args=decoder, kwargs={"name": "decoder", **drawn_by})
        self.parts = {"emb_table": self.emb_table_rref, "rnn": RRef(self.rnn), "decoder": self.decoder_rref}

    def forward(self, input: torch.Tensor, hidden: Hidden, step: int) -> tuple[torch.Tensor, Hidden]:
        """Return scores (sequence, batch_size, ntoken) and the hidden state after the tokens (sequence, batch_size)."""
        emb = _remote_method(EmbeddingTable.forward, self.emb_table_rref, input, self.seed, step)
        with seeded(self.seed, f"rnn/{step}"):
            output, hidden = self.rnn(emb, hidden)
        decoded = _remote_method(Decoder.forward, self.decoder_rref, output, self.seed, step)
        return decoded, hidden

    def parameter_rrefs(self) -> list[RRef[Any]]:
        """RRefs to all parameters, each on its owner (S0.16)."""
        return [rref for part in self.parts.values() for rref in _remote_method(_parameter_rrefs, part)]

    def values(self) -> Named:
        """The values of all parameters, by name."""
        return self._collect(_values)

    def gradients(self, context_id: int) -> Named:
        """The gradients of all parameters in this context, by name."""
        return self._collect(_gradients, context_id)

    def resume(self) -> None:
        """Let ``ps`` go on from its last checkpoint."""
        rpc.rpc_sync(self.emb_table_rref.owner(), _resume, args=(self.emb_table_rref, self.decoder_rref))

    def save(self, step: int) -> None:
        """Let ``ps`` save its parts after ``step`` steps."""
        rpc.rpc_sync(self.emb_table_rref.owner(), _save, args=(step, self.emb_table_rref, self.decoder_rref))

    def _collect(self, method: Callable[..., Named], *args: object) -> Named:
        found = {part: _remote_method(method, rref, *args) for part, rref in self.parts.items()}
        return {f"{part}/{name}": tensor for part, named in found.items() for name, tensor in named.items()}


def _parameter_rrefs(module: nn.Module) -> list[RRef[Any]]:
    """Runs on the owner, because a parameter that is fetched elsewhere is a detached copy (S3.3)."""
    return [RRef(parameter) for parameter in module.parameters()]


def _values(module: nn.Module) -> Named:
    """Runs on the owner: the parameters as they are now."""
    return {name: parameter.detach() for name, parameter in module.named_parameters()}


def _gradients(module: nn.Module, context_id: int) -> Named:
    """Runs on the owner: the gradients in that context, which are never in ``.grad``."""
    gradients = dist_autograd.get_gradients(context_id)  # type: ignore[attr-defined]
    return {name: gradients[parameter] for name, parameter in module.named_parameters()}


def _resume(emb_table: RRef[Any], decoder: RRef[Any]) -> None:
    checkpoint.resume(emb_table=emb_table.local_value(), decoder=decoder.local_value())


def _save(step: int, emb_table: RRef[Any], decoder: RRef[Any]) -> None:
    checkpoint.save(step, emb_table=emb_table.local_value(), decoder=decoder.local_value())


def run_trainer(case: Case, text: bytes) -> Trace:
    """Run ``trainer``: train for all steps. The launching process has read the text, when it made the roles.

    Raises:
        RuntimeError: ``ps`` failed, was lost, or did not answer within ``case.timeout`` seconds.
    """
    corpus = Corpus(text)
    with rpc_timeout(case.timeout):
        sizes: dict[str, Any] = {"ntoken": corpus.ntoken, "ninp": case.ninp, "nhid": case.nhid, "nlayers": case.nlayers}
        model = RNNModel("ps", **sizes, dropout=case.dropout, seed=case.seed, dtype=case.dtype)
        opt = DistributedOptimizer(optim.SGD, model.parameter_rrefs(), lr=case.lr)
        recorder = Recorder(case, model.values())
        hidden = first_hidden(case)
        start = checkpoint.resume(rnn=model.rnn, hidden=hidden[0], cells=hidden[1], trace=recorder)
        if start:
            model.resume()
        for step, data, target in islice(get_next_batch(case, corpus), start, None):
            if step % case.batches == 0:
                hidden = first_hidden(case)
            with dist_autograd.context() as context_id:
                output, hidden = model(data, hidden, step)
                loss = criterion(output, target)
                dist_autograd.backward(context_id, [loss])  # type: ignore[attr-defined]
                # Read now, because the context ends with this block, and with it the gradients.
                gradients = model.gradients(context_id) if recorder.every else {}
                opt.step(context_id)
            hidden = (hidden[0].detach(), hidden[1].detach())
            recorder.step(step, {"trainer": loss}, model.values() if recorder.wants(step) else {}, gradients)
            if checkpoint.due(step + 1):
                model.save(step + 1)
                checkpoint.save(step + 1, rnn=model.rnn, hidden=hidden[0], cells=hidden[1], trace=recorder)
        return recorder.trace()


def criterion(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Mean cross entropy over all tokens of a batch. The classes are the last axis, not the second (S0.20)."""
    return nn.functional.cross_entropy(output.reshape(-1, output.shape[-1]), target.reshape(-1))


# --- Data and numbers, for the lesson and the twin -------------------------------------------------------------------


def get_next_batch(case: Case, corpus: Corpus) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
    """Yield each step, its tokens and the tokens that follow them, (sequence, batch_size) each."""
    for step in range(case.steps):
        yield step, *corpus.batch(step % case.batches, case.sequence, case.batch_size)


def first_hidden(case: Case) -> Hidden:
    """The hidden state at the start of an epoch: zeros, (nlayers, batch_size, nhid) each."""
    zeros = torch.zeros(case.nlayers, case.batch_size, case.nhid, dtype=case.torch_dtype)
    return zeros, zeros.clone()


# --- Roles and Case --------------------------------------------------------------------------------------------------


def roles(case: Case) -> Roles:
    return Roles({"ps": serve, "trainer": partial(run_trainer, case, case.read())})


@dataclass(frozen=True)
class Case(TrainingCase):
    """The tutorial's numbers: 10 epochs of 5 batches, 3 sequences of 5 tokens, 4 layers of 3 cells."""

    dtype: str = choice_field("float32", "float64", "bfloat16", help="dtype of parameters and gradients")
    steps: int = number_field(50, "number of optimizer steps; published: 10 epochs", at_least=1)
    batches: int = number_field(5, "number of batches in an epoch", at_least=1)
    text: str = text_field("", "file whose bytes are the tokens; empty: the package's own text", result=False)
    text_sha256: str = text_field("", "SHA-256 of these bytes; empty: any bytes")
    sequence: int = number_field(5, "number of tokens in a sequence", at_least=1, at_most=1024)
    batch_size: int = number_field(3, "number of sequences in a batch", at_least=1, at_most=1024)
    ninp: int = number_field(2, "size of a token's embedding", at_least=1, at_most=4096)
    nhid: int = number_field(3, "number of cells in a layer of the LSTM", at_least=1, at_most=4096)
    nlayers: int = number_field(4, "number of layers of the LSTM", at_least=1, at_most=64)
    dropout: float = number_field(0.5, "share of the values that dropout sets to zero", at_least=0.0, at_most=1.0)
    lr: float = number_field(0.05, "learning rate of SGD", at_least=0.0)

    def validate(self) -> None:
        if self.text_sha256 and not Path(self.text).exists():
            return  # a trace from another machine can be read; who needs the text reads it
        text = self.read()
        needed = max(self.batch_size, self.sequence + 1)
        self.require(len(text) >= needed and len(set(text)) >= 2, "text", f"{needed} bytes or more, not all the same")
        object.__setattr__(self, "text_sha256", sha256(text).hexdigest())

    def read(self) -> bytes:
        """Read the text. Raises CaseError: it cannot be read, or its SHA-256 is not the case's."""
        try:
            text = read_text(self.text)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            self.require(False, "text", f"the name of a file that can be read ({why})")
        known = self.text_sha256 in ("", sha256(text).hexdigest())
        wanted = f"a file with the SHA-256 {shown(self.text_sha256)}, or an empty text_sha256"
        self.require(known, "text", wanted)
        return text


# --- The twin: the same in one process -------------------------------------------------------------------------------


@one_thread()
def train_locally(case: Case, replay: Trace | None = None) -> Trace:
    """The twin: the three parts in one process, with plain SGD and the same masks."""
    corpus = Corpus(case.read())
    made: dict[str, Callable[[], nn.Module]] = {
        "emb_table": partial(EmbeddingTable, corpus.ntoken, case.ninp, case.dropout),
        "rnn": partial(lstm, case.ninp, case.nhid, case.nlayers, case.dropout),
        "decoder": partial(Decoder, corpus.ntoken, case.nhid, case.dropout),
    }
    model: Any = nn.ModuleDict(
        {name: build_seeded(make, seed=case.seed, name=name, dtype=case.dtype) for name, make in made.items()}
    )
    optimizer = optim.SGD(model.parameters(), lr=case.lr)
    recorder = Recorder(case, named(model))
    for step, data, target in get_next_batch(case, corpus):
        if step % case.batches == 0:
            hidden = first_hidden(case)
        with recorder.outputs(step, "trainer", model):
            emb = model["emb_table"](data, case.seed, step)
            with seeded(case.seed, f"rnn/{step}"):
                output, hidden = model["rnn"](emb, hidden)
            decoded = model["decoder"](output, case.seed, step)
        loss = criterion(decoded, target)
        optimizer.zero_grad()
        loss.backward()
        recorder.before_update(step, named(model))
        optimizer.step()
        hidden = (hidden[0].detach(), hidden[1].detach())
        recorder.step(step, {"trainer": loss}, named(model))
    return recorder.trace()


def named(model: nn.Module) -> dict[str, Any]:
    """The twin's parameters, under the names that `RNNModel` gives them."""
    return {name.replace(".", "/", 1): parameter for name, parameter in model.named_parameters()}
