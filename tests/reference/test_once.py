"""A numbered call that arrives twice counts once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from reference.rpc.once import Once


def test_a_call_counts_only_when_it_comes_first() -> None:
    once: Once[None] = Once()
    assert [once.first(number) for number in (1, 1, 2, 2, 1, 3)] == [True, False, True, False, False, True]


def test_a_repeated_call_gets_the_first_result_and_runs_nothing() -> None:
    once: Once[int] = Once()
    results = iter([10, 20])
    assert [once.run(number, lambda: next(results)) for number in (1, 1, 2, 2)] == [10, 10, 20, 20]


def test_a_repeated_call_waits_for_the_first() -> None:
    once: Once[str] = Once()
    begun, may_end = threading.Event(), threading.Event()

    def slow() -> str:
        begun.set()
        assert may_end.wait(10)
        return "first"

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(once.run, 1, slow)
        assert begun.wait(10)
        again = threads.submit(once.run, 1, lambda: "second")
        may_end.set()
        assert (first.result(10), again.result(10)) == ("first", "first")


def test_a_call_that_failed_runs_again() -> None:
    once: Once[float] = Once()
    with pytest.raises(ZeroDivisionError):
        once.run(1, lambda: 1 / 0)
    assert once.run(1, lambda: 0.5) == 0.5


def test_a_call_that_comes_again_after_a_later_one_is_refused() -> None:
    once: Once[int] = Once()
    once.run(1, lambda: 1)
    once.run(2, lambda: 2)
    with pytest.raises(ValueError, match=r"^call 1 comes again after call 2$"):
        once.run(1, lambda: 3)
