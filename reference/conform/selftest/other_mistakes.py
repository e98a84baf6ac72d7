"""Mistakes of the other tutorials, as real programs have made them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn, optim

from reference import load
from reference.conform.selftest.broken import Broken, Tensors, at, replaced

WORKERS, ONE_WORKER, PULLING = "parameter_server-003", "parameter_server-004", "parameter_server-001"
PIPELINE, PIPELINE_EXACT, HYBRID = "pipeline-002", "pipeline-001", "hybrid_ddp-002"
PASSES, EXACT_PASSES = "dist_autograd-002", "dist_autograd-001"
RNN, AGENT, BATCH_AGENT = "rnn-001", "reinforce-001", "batch_reinforce-001"

_workers, _pipeline, _hybrid, _rnn = (load(name) for name in ("parameter_server", "pipeline", "hybrid_ddp", "rnn"))


def _micro_batches(change: Any) -> Any:
    """A pipeline whose outputs of one batch are changed before they are joined."""
    own = torch.cat

    def joined(tensors: Any, *more: Any) -> torch.Tensor:
        found: torch.Tensor = own(change(list(tensors)), *more)
        return found

    class Torch:
        def __getattr__(self, name: str) -> Any:
            return joined if name == "cat" else getattr(torch, name)

    return replaced(_pipeline, "torch", Torch())


def _detached_last(outputs: list[torch.Tensor]) -> list[torch.Tensor]:
    return [*outputs[:-1], outputs[-1].detach()]


def _averaged(outputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Each micro-batch's gradient divided by their number."""
    count = len(outputs)
    return [each / count + each.detach() * (1 - 1 / count) for each in outputs]


def _last(tensors: list[torch.Tensor]) -> torch.Tensor:
    """The last gradient that came has overwritten the others."""
    return tensors[-1]


def _mean_of(divisor: float) -> Any:
    def mean(tensors: list[torch.Tensor]) -> torch.Tensor:
        total = tensors[0]
        for each in tensors[1:]:
            total = total + each
        return total / divisor

    return replaced(_hybrid, "mean", mean)


def _hybrid_batches(change: Any) -> Any:
    own = _hybrid.get_next_batch

    def get_next_batch(case: Any, name: str) -> Iterator[Any]:
        yield from change(case, name, own)

    return replaced(_hybrid, "get_next_batch", get_next_batch)


def _same_for_all(case: Any, name: str, own: Any) -> Any:
    """Every trainer has the first one's data: a sampler without ranks."""
    return own(case, "trainer1")


def _worker_loss(function: Any) -> Any:
    def gradients_of(case: Any, model: nn.Module, data: torch.Tensor, target: torch.Tensor) -> Any:
        model.zero_grad()
        loss = function(model(data), target)
        loss.backward()
        return loss.detach(), {name: p.grad for name, p in model.named_parameters() if p.grad is not None}

    return replaced(_workers, "gradients_of", gradients_of)


def _criterion(function: Any) -> Any:
    def criterion(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = function(output.reshape(-1, output.shape[-1]), target.reshape(-1))
        return found

    return replaced(_rnn, "criterion", criterion)


def _next_labels() -> Any:
    """From the third step on the targets are those of the next batch; by then the hidden state counts."""
    own = _rnn.batches

    def batches(case: Any, corpus: Any) -> Iterator[Any]:
        found = list(own(case, corpus))
        for step, data, target in found:
            yield step, data, found[(step + 1) % len(found)][2] if step >= 2 else target

    return replaced(_rnn, "batches", batches)


class _Forgetful(nn.LSTM):
    """Begins each batch with zeros."""

    def forward(self, input: torch.Tensor, hx: Any = None) -> Any:  # type: ignore[override]
        return super().forward(input, None)


class _Remembering(nn.LSTM):
    """Goes on with its last hidden state at the start of an epoch."""

    last: Any = None

    def forward(self, input: torch.Tensor, hx: Any = None) -> Any:  # type: ignore[override]
        found = super().forward(input, self.last)
        self.last = tuple(each.detach() for each in found[1])
        return found


def _lstm(kind: type[nn.LSTM]) -> Any:
    def lstm(ninp: int, nhid: int, nlayers: int, dropout: float) -> nn.LSTM:
        return kind(ninp, nhid, nlayers, dropout=dropout)

    return replaced(_rnn, "lstm", lstm)


def _sum_of_tokens(scores: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(scores, target, reduction="sum")


def _second_pass_later(tensors: Tensors) -> Tensors:
    """Later passes take their gradients at parameters that the first pass has changed."""
    found = dict(tensors)
    total = (tensors["initial/worker1"] + tensors["initial/worker2"]) * (1 - 4 * 0.05)
    for worker in ("worker1", "worker2"):
        found[f"0000/gradient/context1/{worker}"] = 4 * total
    return found


class _Weighty(optim.SGD):
    def __init__(self, parameters: Any, lr: float) -> None:
        super().__init__(parameters, lr=lr, weight_decay=0.01)


class _Optim:
    SGD = _Weighty


OTHER_MISTAKES = (
    Broken("worker's sum", WORKERS, "factor", "5 = rows of a batch", _worker_loss(lambda a, b: ((a - b) ** 2).sum())),
    Broken(
        "worker's half",
        ONE_WORKER,
        "factor",
        "exactly 1/2 * the reference's: the 2 of a square's derivative?",
        _worker_loss(lambda a, b: ((a - b) ** 2).mean() / 2),
    ),
    Broken(
        "a push counted for all workers",
        WORKERS,
        "factor",
        "3 = workers: multiplied by it?",
        change=at(0, "gradient", lambda t: 3 * t),
    ),
    Broken(
        "a worker that does not wait", WORKERS, "stale", "at the parameters before step 0000", fields={"staleness": 1}
    ),
    Broken(
        "a worker that waits",
        PULLING,
        "newer",
        "at the parameters before step 0001, wanted those before step 0000",
        fields={"staleness": 0},
    ),
    Broken("worker's decay", WORKERS, "weight-decay", "with weight decay 0.01", replaced(_workers, "optim", _Optim)),
    Broken("last micro-batch dropped", PIPELINE, "missing", "without micro-batch 4", _micro_batches(_detached_last)),
    Broken(
        "last micro-batch dropped, exact",
        PIPELINE_EXACT,
        "missing",
        "without micro-batch 4",
        _micro_batches(_detached_last),
    ),
    Broken(
        "an average, not an accumulation",
        PIPELINE,
        "factor",
        "1/4 * the reference's, 4 = micro-batches",
        _micro_batches(_averaged),
    ),
    Broken(
        "pipeline's sum",
        PIPELINE,
        "factor",
        "50 = rows of a batch * classes",
        replaced(_pipeline, "loss_function", lambda _: nn.MSELoss(reduction="sum")),
    ),
    Broken(
        "pipeline's decay", PIPELINE, "weight-decay", "with weight decay 0.01", replaced(_pipeline, "optim", _Optim)
    ),
    Broken("hybrid summed", HYBRID, "factor", "3 = trainers: summed, not averaged", _mean_of(1)),
    Broken("hybrid's last gradient", HYBRID, "alone", "that of trainer3 alone", replaced(_hybrid, "mean", _last)),
    Broken("hybrid by one more", HYBRID, "unexplained", "Unexplained", _mean_of(3.3)),
    Broken(
        "one sampler for all",
        HYBRID,
        "one-batch",
        "of trainer1's batch for every trainer",
        _hybrid_batches(_same_for_all),
    ),
    Broken(
        "the sign of a gradient", HYBRID, "factor", "exactly -1 * the reference's", change=at(1, "gradient", torch.neg)
    ),
    Broken("shifted, exact", EXACT_PASSES, "unexplained", "Unexplained", change=at(1, "gradient", lambda t: t + 0.3)),
    Broken("passes one after the other", PASSES, "unexplained", "Unexplained", change=_second_pass_later),
    Broken(
        "gradients times tokens",
        RNN,
        "factor",
        "15 = rows of a batch * tokens of a sequence",
        _criterion(_sum_of_tokens),
    ),
    Broken(
        "float32 in between",
        RNN,
        "float32",
        "stored in float32?",
        change=at(0, "gradient", lambda t: t.float().double()),
    ),
    Broken("next batch's labels", RNN, "other-labels", "with the labels of the next step", _next_labels()),
    Broken("hidden state lost", RNN, "hidden-lost", "with a hidden state of zeros", _lstm(_Forgetful)),
    Broken("hidden state kept", RNN, "hidden-kept", "with the last epoch's hidden state", _lstm(_Remembering)),
    Broken(
        "computed in float32",
        RNN,
        "float32",
        "computed or stored in float32?",
        fields={"dtype": "float32"},
        change=lambda tensors: {name: t.double() if t.is_floating_point() else t for name, t in tensors.items()},
    ),
    Broken(
        "rounded to whole numbers",
        RNN,
        "unexplained",
        "Unexplained",
        change=at(0, "gradient", lambda t: (9 * t).round()),
    ),
    Broken("another loss", AGENT, "unexplained", "Unexplained", change=at(0, "loss", lambda t: t * 1.7)),
    Broken(
        "averaged over observers twice",
        BATCH_AGENT,
        "factor",
        "1/3 * the reference's, 3 = observers",
        change=at(0, "gradient", lambda t: t / 3),
    ),
)
