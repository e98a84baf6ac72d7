"""Turns of blocks, which test_shard.py runs in the order of their numbers: no caller waits in vain."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from reference.rpc.shard import PredecessorFailed, Turns


def admit(
    turns: Turns, arrivals: Sequence[int], failing: int | None = None
) -> tuple[list[int], dict[int, BaseException]]:
    """The numbers whose blocks ran, in that order, and the callers' errors."""
    began: list[int] = []
    ended: list[int] = []

    def work(number: int) -> None:
        with turns.turn(number):
            began.append(number)
            if number == failing:
                raise ZeroDivisionError("seven")
            ended.append(number)
            assert began == [*ended], "two at once"

    with ThreadPoolExecutor(len(arrivals)) as callers:
        futures = {number: callers.submit(work, number) for number in arrivals}
    return ended, {number: error for number, future in futures.items() if (error := future.exception())}


def run(turns: Turns, number: int, work: Callable[[], object] = int) -> None:
    with turns.turn(number):
        work()


def test_a_failure_is_the_callers_own_and_ends_the_later_ones() -> None:
    turns = Turns(10)
    ended, found = admit(turns, [3, 2, 1, 0], failing=1)
    assert ended == [0]
    assert type(found[1]) is ZeroDivisionError
    for number in (2, 3):
        assert type(found[number]) is PredecessorFailed
        assert str(found[number]) == f"number {number} cannot run: number 1 failed: ZeroDivisionError: seven"
    with pytest.raises(PredecessorFailed, match=r"^number 4 cannot run: number 1 failed: ZeroDivisionError: seven$"):
        run(turns, 4)


def test_an_exit_is_a_failure_too() -> None:
    turns = Turns(10)
    with pytest.raises(SystemExit):
        run(turns, 0, sys.exit)
    with pytest.raises(PredecessorFailed, match=r"^number 1 cannot run: number 0 failed: SystemExit: "):
        run(turns, 1)


def test_a_missing_number_ends_the_wait_of_all_others() -> None:
    ended, errors = admit(Turns(0.2), [0, 2, 3])
    assert ended == [0]
    assert {number: str(error) for number, error in errors.items()} == {
        number: f"number {number} cannot run: nothing for 0.2 s from number 1" for number in (2, 3)
    }


def test_a_number_runs_only_once() -> None:
    turns = Turns(10)
    run(turns, 0)
    with pytest.raises(PredecessorFailed, match=r"^number 0 has run before, wanted number 1$"):
        run(turns, 0)
    assert admit(turns, [1]) == ([1], {})
