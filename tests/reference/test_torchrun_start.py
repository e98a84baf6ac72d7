"""Ranks that torchrun starts agree on a name for each start, whatever an earlier one has left in the store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from functools import partial

import pytest
from torch._C._distributed_c10d import TCPStore

from reference.world.torchrun import _agreed_start, _value
from tests.support.roles_plain import await_true

SIZE = 3


@pytest.fixture
def store() -> TCPStore:
    return TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=15))


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(SIZE) as pool:
        yield pool


def started(store: TCPStore, pool: ThreadPoolExecutor, ranks: Sequence[int]) -> list[Future[str]]:
    """Start these ranks, each once the one before has written its word."""
    found = []
    for rank in ranks:
        key = f"word {rank}" if rank else "words"
        before = _value(store, key)
        found.append(pool.submit(_agreed_start, store, rank, SIZE))
        await_true(partial(has_changed, store, key, before), 20.0)
    return found


def has_changed(store: TCPStore, key: str, before: str) -> bool:
    return _value(store, key) != before


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_all_ranks_of_a_start_agree_on_a_name_of_their_own(
    order: Sequence[int], store: TCPStore, pool: ThreadPoolExecutor
) -> None:
    names = [{each.result(30) for each in started(store, pool, order)} for _ in range(3)]
    assert [len(each) for each in names] == [1, 1, 1]
    assert len(set.union(*names)) == 3


def test_a_rank_that_died_while_the_others_waited_is_waited_for_again(
    store: TCPStore, pool: ThreadPoolExecutor
) -> None:
    """All that is left of it is its word."""
    store.set("word 1", "0123456789abcdef")
    first, last = started(store, pool, (0, 2))
    name = last.result(30)
    (late,) = started(store, pool, (1,))
    assert (late.result(30), first.result(30)) == (name, name)


def test_a_rank_that_does_not_come_is_named(store: TCPStore, pool: ThreadPoolExecutor) -> None:
    store.set_timeout(timedelta(seconds=1))
    first, last = started(store, pool, (0, 2))
    with pytest.raises(TimeoutError, match=r"^waited 1 s for rank 1$"):
        first.result(20)
    assert len(last.result(20)) == 16
    with pytest.raises(TimeoutError, match=r"^waited 1 s for rank 0$"):
        _agreed_start(store, 1, SIZE)


def test_one_rank_waits_for_nobody(store: TCPStore) -> None:
    assert len(_agreed_start(store, 0, 1)) == 16
