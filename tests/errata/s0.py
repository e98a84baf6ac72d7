"""Errata of the introduction and its RNN; lines.py has the others of S0."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.distributed.rpc as rpc
from torch import nn

from tests.errata.listings import script, shows


@shows("S0.3", raises=("RuntimeError", "Overloaded torch operator invoked from Python failed to match any schema:"))
def remote_randn_of_two_sizes() -> None:
    assert rpc.remote("worker1", torch.randn, args=((3, 3),)).to_here().shape == (3, 3)
    rpc.remote("worker1", torch.randn, args=(3, 3)).to_here()


@shows("S0.7", gives=[1, True], here=True)
def spawn_at_module_level() -> list[object]:
    """Return its status, and whether the children print why."""
    done = script(
        """
        import torch.multiprocessing as mp
        def run_worker(rank):
            pass
        mp.spawn(run_worker, nprocs=1, join=True)
        """
    )
    reason = "An attempt has been made to start a new process before the"
    return [done.returncode, reason in done.stderr and "process 0 terminated with exit code 1" in done.stderr]


@shows("S0.19", gives=[True, False])
def tokens_of_nowhere() -> list[bool]:
    """Return whether they are the values with which torch can fill uninitialised memory: published, then repaired."""
    torch.use_deterministic_algorithms(True)
    try:
        published = torch.LongTensor(5, 3) % 10
        repaired = torch.LongTensor(5, 3).random_(0, 10)
    finally:
        torch.use_deterministic_algorithms(False)
    filling = torch.full((5, 3), torch.iinfo(torch.int64).max % 10)
    return [torch.equal(published, filling), torch.equal(repaired, filling)]


@shows("S0.20", gives=[3, 10])
def classes_that_the_loss_sees() -> list[int]:
    """The loss of equal logits is the log of their number: published (the sequences), repaired (the vocabulary)."""
    criterion = nn.CrossEntropyLoss()
    output = torch.zeros(5, 3, 10)
    published = criterion(output, torch.zeros(5, 10, dtype=torch.int64))
    repaired = criterion(output.reshape(-1, 10), torch.zeros(15, dtype=torch.int64))
    return [number_whose_log_is(published), number_whose_log_is(repaired)]


def number_whose_log_is(loss: torch.Tensor) -> int:
    number = round(math.exp(loss.item()))
    torch.testing.assert_close(loss, torch.tensor(number).log())
    return number


@shows("S0.21", gives={"fresh targets": False, "one batch": True})
def does_it_learn() -> dict[str, bool]:
    """Train 400 steps at 0.5: is the mean loss of the last 50 below 0.9, where chance gives ln 3?"""
    return {"fresh targets": last_losses(fresh=True) < 0.9, "one batch": last_losses(fresh=False) < 0.9}


def last_losses(*, fresh: bool) -> float:
    torch.manual_seed(0)
    encoder, rnn, decoder = nn.Embedding(10, 2), nn.LSTM(2, 3, 4), nn.Linear(3, 10)
    modules = nn.ModuleList([encoder, rnn, decoder])
    optimizer = torch.optim.SGD(modules.parameters(), lr=0.5)
    losses: list[float] = []
    batch = draw()
    for _ in range(400):
        data, target, hidden = batch
        loss = nn.functional.cross_entropy(decoder(rnn(encoder(data), hidden)[0]), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        batch = draw() if fresh else batch
    return sum(losses[-50:]) / 50


def draw() -> tuple[torch.Tensor, torch.Tensor, Any]:
    """Return tokens, targets in the published shape, and the hidden state that the listing draws anew each time."""
    hidden = torch.randn(4, 3, 3), torch.randn(4, 3, 3)
    return torch.randint(10, (5, 3)), torch.randint(3, (5, 10)), hidden
