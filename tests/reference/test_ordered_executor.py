"""The ordered executor: work runs in the order of its numbers, in one thread, and no caller waits in vain."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import permutations

import pytest

from reference.rpc.ordered_executor import OrderedExecutor, PredecessorFailed


def admit(executor: OrderedExecutor, arrivals: Sequence[int], failing: int | None = None) -> list[int]:
    """The numbers whose work ran, in that order; `errors` has the callers' errors."""
    worked: list[int] = []
    threads = set()

    def work(number: int) -> int:
        threads.add(threading.get_ident())
        if number == failing:
            raise ZeroDivisionError("seven")
        worked.append(number)
        return number

    with ThreadPoolExecutor(len(arrivals)) as callers:
        futures: dict[int, Future[int]] = {
            number: callers.submit(executor.run, number, lambda number=number: work(number))  # type: ignore[misc]
            for number in arrivals
        }
    assert len(threads) <= 1
    assert threading.get_ident() not in threads
    for number, future in futures.items():
        if future.exception() is None:
            assert future.result() == number
    found = {number: future.exception() for number, future in futures.items()}
    # Without frames, which would keep the executor alive, and so its thread.
    admit.errors = {n: e.with_traceback(None) for n, e in found.items() if e}  # type: ignore[attr-defined]
    return worked


def errors() -> dict[int, BaseException]:
    return admit.errors  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize("arrivals", list(permutations(range(4))))
def test_work_runs_in_the_order_of_numbers_not_of_arrival(arrivals: tuple[int, ...]) -> None:
    assert admit(OrderedExecutor(10), arrivals) == [0, 1, 2, 3]
    assert errors() == {}


def test_later_numbers_go_on_where_earlier_ones_ended() -> None:
    executor = OrderedExecutor(10)
    assert admit(executor, [1, 0]) == [0, 1]
    assert admit(executor, [3, 2]) == [2, 3]


def test_a_failure_is_the_callers_own_and_ends_the_later_ones() -> None:
    executor = OrderedExecutor(10)
    assert admit(executor, [3, 2, 1, 0], failing=1) == [0]
    found = errors()
    assert type(found[1]) is ZeroDivisionError
    for number in (2, 3):
        assert type(found[number]) is PredecessorFailed
        assert str(found[number]) == f"number {number} cannot run: number 1 failed: ZeroDivisionError: seven"
    with pytest.raises(PredecessorFailed, match=r"^number 4 cannot run: number 1 failed: ZeroDivisionError: seven$"):
        executor.run(4, int)


def test_an_exit_is_a_failure_too() -> None:
    executor = OrderedExecutor(10)
    with pytest.raises(SystemExit):
        executor.run(0, sys.exit)
    with pytest.raises(PredecessorFailed, match=r"^number 1 cannot run: number 0 failed: SystemExit: "):
        executor.run(1, int)


def test_a_missing_number_ends_the_wait_of_all_others() -> None:
    assert admit(OrderedExecutor(0.2), [0, 2, 3]) == [0]
    assert {number: str(error) for number, error in errors().items()} == {
        number: f"number {number} cannot run: nothing for 0.2 s from number 1" for number in (2, 3)
    }


def test_a_number_runs_only_once() -> None:
    executor = OrderedExecutor(10)
    executor.run(0, int)
    with pytest.raises(PredecessorFailed, match=r"^number 0 has run before, wanted number 1$"):
        executor.run(0, int)
    assert admit(executor, [1]) == [1]


def test_the_thread_ends_with_its_executor() -> None:
    executor = OrderedExecutor(10)
    executor.run(0, int)
    thread = next(thread for thread in threading.enumerate() if thread.name.startswith("ordered"))
    del executor
    thread.join(10)
    assert not thread.is_alive()
