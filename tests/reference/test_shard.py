"""Shards: micro-batches by number, each batch's own parameters and gradients."""

from __future__ import annotations

import copy
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
import torch
import torch.distributed.rpc as rpc
from torch import nn
from torch.distributed.rpc import RRef

from reference.pipeline import SequentialShard
from reference.world import World, launch
from tests.support.gpu import MAPPED, needs_gpu

pytestmark = pytest.mark.world("worker1")


def statistics_of(arrivals: list[int], *, by_number: bool) -> torch.Tensor:
    """The running mean after four micro-batches that came in this order, each in a thread of its own."""
    shard = SequentialShard(partial(nn.BatchNorm1d, 2), len(arrivals), 10.0)
    parts = torch.randn(8, 2, generator=torch.Generator().manual_seed(1)).chunk(len(arrivals))
    if by_number:
        with ThreadPoolExecutor(len(arrivals)) as threads:
            for n in arrivals:
                threads.submit(shard.forward, RRef(parts[n]), n)
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


def test_torch_finds_all_tensors_of_a_shard() -> None:
    """With device maps it looks for those of an RRef's object, so that nobody reads them too early."""
    shard = SequentialShard(partial(nn.BatchNorm1d, 2), 2, 10.0)
    found = torch._jit_internal._extract_tensors(shard)
    assert {id(each) for each in found} == {id(each) for each in (*shard.parameters(), *shard.buffers())}


def test_a_shard_that_is_fetched_says_so() -> None:
    """Erratum S4.10."""
    with pytest.raises(TypeError, match=r"^a shard of 2 tensors was fetched, wanted a call of its methods$"):
        copy.copy(linear_shard())


def test_values_that_were_taken_stay_as_they_were() -> None:
    """The next step changes the shard's parameters in place."""
    shard = linear_shard()
    taken = shard.values()[0]["seq.bias"]
    before = taken.tolist()
    with torch.no_grad():
        for parameter in shard.parameters():
            parameter.add_(1)
    assert taken.tolist() == before


_on_gpu: list[SequentialShard] = []


def keep_shard() -> None:
    torch.manual_seed(0)
    _on_gpu[:] = [SequentialShard(partial(nn.Linear, 2, 2), 1, 10.0, device="cuda:0")]
    _zero()  # the first use of a kernel loads it, for which CUDA waits until the GPU is idle


def _zero() -> None:
    with torch.no_grad():
        for parameter in _on_gpu[0].parameters():
            parameter.mul_(0)


def zero_later() -> None:
    """As the optimizer's step, behind half a second of other work of the GPU."""
    with torch.no_grad():
        for parameter in _on_gpu[0].parameters():
            parameter.fill_(1)
    torch.cuda.synchronize()
    torch.cuda._sleep(10**9)
    _zero()


def bias() -> list[float]:
    found: list[float] = _on_gpu[0].values()[0]["seq.bias"].tolist()
    return found


def output() -> list[float]:
    found: list[float] = _on_gpu[0].forward(RRef(torch.ones(1, 2)), 0)[0].tolist()
    return found


def after_a_step(read: Callable[[], list[float]]) -> list[float]:
    """Runs on a."""
    for function in (keep_shard, zero_later):
        rpc.rpc_sync("b", function)
    found: list[float] = rpc.rpc_sync("b", read)
    return found


@needs_gpu
@pytest.mark.parametrize("read", [bias, output])
def test_with_device_maps_a_shard_has_the_parameters_of_the_last_step(read: Callable[[], list[float]]) -> None:
    """The step has a stream of its own, for which torch lets nobody wait."""
    with launch(["a", "b"], options=MAPPED) as world:
        assert world.call("a", after_a_step, read) == [0.0, 0.0]


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
    with pytest.raises(TimeoutError):  # no batch so far
        shard.await_gradients(0)
    for number in range(3):
        with shard.turn(number):
            output = shard.seq(torch.ones(1, 2)).sum()
        if number < 2:  # the first batch
            output.backward()
    with pytest.raises(TimeoutError, match=r"^2 of 2 parameters, among them 'seq\.weight'"):
        shard.await_gradients(0)
