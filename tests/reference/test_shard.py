"""Shards and the module that joins them: any two halves, micro-batches by number, and errors that name one."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import pytest
import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from torch import nn
from torch.distributed.rpc import RRef

from reference.outcome import Raised, RoleFailed
from reference.pipeline import DistResNet50, SequentialShard
from reference.rpc.shard import Shard
from reference.world import World

WORKERS = ("worker1", "worker2")


pytestmark = pytest.mark.world("master", *WORKERS)


class Noted(nn.Module):
    """Passes on what it gets, notes how many rows it had, and fails where told to."""

    def __init__(self, failing: int | None = None) -> None:
        super().__init__()
        self.rows: list[int] = []
        self.failing = failing

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.rows.append(len(x))
        if len(self.rows) - 1 == self.failing:
            raise ZeroDivisionError("at the third")
        return x


def noting_shard(num_split: int, failing: int | None = None) -> Shard:
    return SequentialShard(partial(Noted, failing), num_split, 10.0)


def rows(shard: RRef[Any]) -> list[int]:
    """Runs on the shard's owner."""
    return shard.local_value().seq.rows  # type: ignore[no-any-return]


def micro_batches(num_split: int, batch: int, failing: int | None = None) -> tuple[list[list[int]], bool]:
    """Runs on the master: rows of the micro-batches that each shard saw, and whether the output is the input."""
    second = partial(noting_shard, num_split, failing)
    model = DistResNet50(num_split, WORKERS, [partial(noting_shard, num_split), second])
    xs = torch.arange(2.0 * batch).view(batch, 2)
    same = all(torch.equal(model(xs), xs) for _ in range(2))
    seen = [
        rpc.rpc_sync(name, rows, args=(r,)) for name, r in zip(WORKERS, (model.p1_rref, model.p2_rref), strict=True)
    ]
    return seen, same


@pytest.mark.parametrize(
    ("num_split", "batch", "parts"),
    [(1, 8, [8]), (2, 8, [4, 4]), (8, 8, [1] * 8), (4, 10, [3, 3, 2, 2]), (6, 9, [2, 2, 2, 1, 1, 1])],
)
def test_num_split_is_the_number_of_micro_batches(world: World, num_split: int, batch: int, parts: list[int]) -> None:
    """S4.3. This holds even if the batch cannot be split evenly: ``chunk(6)`` of 9 would give five."""
    seen, same = world.call("master", micro_batches, num_split, batch)
    assert seen == [2 * parts, 2 * parts]
    assert same


def test_a_failing_micro_batch_fails_the_batch_at_once(world: World) -> None:
    with pytest.raises(RoleFailed) as caught:
        world.call("master", micro_batches, 4, 8, 2)
    outcome = caught.value.outcome
    assert isinstance(outcome, Raised)
    assert "ZeroDivisionError" in outcome.message
    assert "at the third" in outcome.message


def normalising_shard(num_split: int) -> SequentialShard:
    torch.manual_seed(0)
    return SequentialShard(partial(nn.BatchNorm1d, 2), num_split, 10.0)


def statistics_of(arrivals: list[int], *, by_number: bool) -> torch.Tensor:
    """The running mean after four micro-batches that came in this order, each in a thread of its own."""
    shard = normalising_shard(len(arrivals))
    parts = torch.randn(8, 2, generator=torch.Generator().manual_seed(1)).chunk(len(arrivals))
    if by_number:
        threads = [threading.Thread(target=shard.forward, args=(RRef(parts[n]), n)) for n in arrivals]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    else:
        for n in arrivals:
            shard.seq(parts[n])
    return shard.values()[1]["seq.running_mean"]


def test_running_statistics_do_not_depend_on_arrival(world: World) -> None:
    """S4.6; in order of arrival they do."""
    expected = world.call("worker1", partial(statistics_of, by_number=False), [0, 1, 2, 3])
    for arrivals in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]):
        assert torch.equal(world.call("worker1", partial(statistics_of, by_number=True), arrivals), expected)
    assert not torch.equal(world.call("worker1", partial(statistics_of, by_number=False), [3, 2, 1, 0]), expected)


def linear_shard(timeout: float = 10.0) -> SequentialShard:
    torch.manual_seed(0)
    return SequentialShard(partial(nn.Linear, 2, 2), 2, timeout)


def test_values_that_were_taken_stay_as_they_were() -> None:
    """The next step changes the shard's parameters in place."""
    shard = linear_shard()
    taken = shard.values()[0]["seq.bias"]
    before = taken.tolist()
    with torch.no_grad():
        for parameter in shard.parameters():
            parameter.add_(1)
    assert taken.tolist() == before


def depth(node: Any) -> int:
    """The nodes of a graph on its longest way."""
    return 1 + max((depth(each) for each, _ in node.next_functions if each), default=0)


def test_each_batch_begins_with_the_parameters_themselves() -> None:
    """A graph that hung on the batch before's would have its bits, and grow from batch to batch."""
    shard = linear_shard()
    depths = []
    for number in range(4):
        with shard.turn(number):
            depths.append(depth(shard.seq(torch.ones(1, 2)).grad_fn))
    alone = depths[0]
    assert depths == [alone, alone + 1, alone, alone + 1]


def test_each_batch_waits_for_its_own_gradients() -> None:
    shard = linear_shard(timeout=0.0)
    with pytest.raises(TimeoutError):  # as the master asks for the parameters, this fixes those that are awaited
        shard.await_gradients(0)
    for number in range(3):
        with shard.turn(number):
            output = shard.seq(torch.ones(1, 2)).sum()
        if number < 2:  # the first batch
            output.backward()
    with pytest.raises(TimeoutError, match=r"^2 of 2 parameters, among them 'seq\.weight'"):
        shard.await_gradients(0)


def owners_and_gradients() -> tuple[list[str], dict[str, torch.Tensor], list[torch.Tensor]]:
    """Runs on the master: the parameters' owners, the gradients in the context, and those of worker1 in the next."""
    model = DistResNet50(2, WORKERS, [linear_shard, linear_shard])
    with dist_autograd.context() as context_id:
        dist_autograd.backward(context_id, [model(torch.ones(4, 2)).sum()])  # type: ignore[attr-defined]
        inside = model.gradients(context_id)
    with dist_autograd.context() as context_id:
        model(torch.ones(4, 2))
        other = rpc.rpc_sync("worker1", count_gradients, args=(context_id,))
        return [rref.owner_name() for rref in model.parameter_rrefs()], inside, other


def test_parameters_stay_with_their_owners_and_gradients_in_their_context(world: World) -> None:
    owners, inside, other = world.call("master", owners_and_gradients)
    assert owners == ["worker1", "worker1", "worker2", "worker2"]
    assert inside["shard2.seq.bias"].tolist() == [4.0, 4.0]
    assert sorted(inside) == [f"shard{i}.seq.{name}" for i in (1, 2) for name in ("bias", "weight")]
    assert other == []


_go = threading.Event()


def linear_shard_later() -> SequentialShard:
    """Runs on the owner: make a shard after `let_go`, which runs there, too; it waits at most 20 s."""
    assert _go.wait(20)
    return linear_shard()


def let_go() -> None:
    _go.set()


def first_call_in_a_context() -> list[int]:
    """Runs on the master: how many gradients worker1 gets, from a shard used for the first time and for the second.

    The owner cannot tell the shard's type before the first call has been asked for.
    """
    counts = []
    shard = rpc.remote("worker1", linear_shard_later)
    for number in range(2):
        with dist_autograd.context() as context_id:
            answer = shard.rpc_async().forward(RRef(torch.ones(4, 2)), number)
            rpc.rpc_sync("worker1", let_go)
            output = answer.wait()
            dist_autograd.backward(context_id, [output.sum()])  # type: ignore[attr-defined]
            counts.append(len(rpc.rpc_sync("worker1", count_gradients, args=(context_id,))))
    return counts


def count_gradients(context_id: int) -> list[torch.Tensor]:
    """Runs on the owner."""
    return list(dist_autograd.get_gradients(context_id).values())  # type: ignore[attr-defined]


def test_a_proxys_first_asynchronous_call_loses_the_gradients(world: World) -> None:
    """torch 2.13: why `DistResNet50` uses its RRefs before any batch does. No error, no gradient."""
    assert world.call("master", first_call_in_a_context) == [0, 2]
