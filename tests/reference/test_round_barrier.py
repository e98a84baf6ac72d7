"""The barrier of rounds: refused reports, the results of participants, and failing rounds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from operator import itemgetter
from typing import Any

import pytest
import torch

from reference.rpc.barrier import Barrier, RoundFailed

NAMES = ("a", "b")


class StepFailed(RoundFailed):
    unit, member = "step", "worker"


@pytest.fixture
def barrier() -> Iterator[Barrier[str]]:
    with closing(Barrier[str](NAMES, 2, timeout=60)) as made:
        yield made


def result_of(future: torch.futures.Future[Any]) -> Any:
    """The future's result, within ten seconds."""
    ended = threading.Event()
    future.add_done_callback(lambda _: ended.set())
    assert ended.wait(10)
    return future.value()


def error_of(future: torch.futures.Future[Any]) -> str:
    """The text of the error that the future comes to, without torch's words for where it was raised."""
    with pytest.raises(RuntimeError) as caught:
        result_of(future)
    return str(caught.value).splitlines()[0].removeprefix("Got the following error when running the callback: ")


def round_of(barrier: Barrier[str], result: str) -> list[str]:
    futures = [barrier.join(name)[0] for name in NAMES]
    barrier.complete(result)
    return [result_of(future) for future in futures]


class TestJoin:
    def test_each_participant_may_pick_its_own_part_of_the_result(self, barrier: Barrier[str]) -> None:
        futures = [barrier.join(name, pick=pick)[0] for name, pick in zip(NAMES, (itemgetter(1), None), strict=True)]
        barrier.complete("xy")
        assert [result_of(future) for future in futures] == ["y", "xy"]

    def test_a_stranger_is_refused(self, barrier: Barrier[str]) -> None:
        with pytest.raises(RoundFailed, match=r"^unknown trainer 'c', wanted one of a, b$"):
            barrier.join("c")

    def test_a_second_report_is_refused_and_the_round_goes_on(self, barrier: Barrier[str]) -> None:
        first, _ = barrier.join("a", 0)
        with pytest.raises(RoundFailed, match=r"^round 0: a reports twice$"):
            barrier.join("a", 0)
        assert barrier.join("b", 0)[1]
        barrier.complete("one")
        assert result_of(first) == "one"

    def test_a_report_of_an_earlier_round_is_refused_by_its_number(self, barrier: Barrier[str]) -> None:
        round_of(barrier, "one")
        with pytest.raises(RoundFailed, match=r"^round 1: a reports for round 0, which is over$"):
            barrier.join("a", 0)
        assert barrier.joined == []

    @pytest.mark.parametrize("number", [None, 2])
    def test_a_report_after_the_last_round_is_refused(self, barrier: Barrier[str], number: int | None) -> None:
        round_of(barrier, "one")
        round_of(barrier, "two")
        with pytest.raises(RoundFailed, match=r"^a reports after the last of 2 rounds$"):
            barrier.join("a", number)

    def test_the_errors_have_the_class_and_the_words_of_the_barriers_user(self) -> None:
        with closing(Barrier[str](NAMES, 1, timeout=60, error=StepFailed)) as barrier:
            with pytest.raises(StepFailed, match=r"^unknown worker 'c', wanted one of a, b$"):
                barrier.join("c")
            barrier.join("a")
            with pytest.raises(StepFailed, match=r"^step 0: a reports twice$"):
                barrier.join("a")


class TestFailure:
    def test_a_failure_ends_every_wait_and_refuses_later_reports_with_its_first_reason(
        self, barrier: Barrier[str]
    ) -> None:
        waiting, _ = barrier.join("a")
        barrier.fail("b is late")
        barrier.fail("never mind")
        assert error_of(waiting) == "RoundFailed: round 0: b is late"
        with pytest.raises(RoundFailed, match=r"^round 0: b is late$"):
            barrier.join("b")

    def test_a_round_that_is_not_complete_in_time_names_who_is_missing(self) -> None:
        with closing(Barrier[str](("a", "b", "c"), 2, timeout=0.1)) as barrier:
            waiting, _ = barrier.join("b")
            assert error_of(waiting) == "RoundFailed: round 0: nothing for 0.1 s from a, c"
            assert result_of(barrier.failed).silent == ["a", "c"]

    def test_each_round_has_the_whole_time(self, barrier: Barrier[str]) -> None:
        before = barrier._due
        round_of(barrier, "in time")
        assert barrier._due > before

    def test_a_failure_while_the_last_report_is_worked_on_is_the_result(self, barrier: Barrier[str]) -> None:
        futures = [barrier.join(name)[0] for name in NAMES]
        barrier.fail("a has gone")
        barrier.complete("too late")
        assert [error_of(future) for future in futures] == ["RoundFailed: round 0: a has gone"] * 2

    def test_a_block_that_fails_fails_the_round(self, barrier: Barrier[str]) -> None:
        waiting, _ = barrier.join("a")
        with (
            pytest.raises(RoundFailed, match=r"^round 0: the report of b failed: KeyError: 'no'$"),
            barrier.report("b"),
        ):
            raise KeyError("no")
        assert error_of(waiting) == "RoundFailed: round 0: the report of b failed: KeyError: 'no'"

    def test_work_that_fails_fails_the_round(self, barrier: Barrier[str]) -> None:
        waiting, _ = barrier.join("a")
        with pytest.raises(RoundFailed, match=r"^round 0: the sum failed: KeyError: 'no'$"), barrier.work("the sum"):
            raise KeyError("no")
        assert error_of(waiting) == "RoundFailed: round 0: the sum failed: KeyError: 'no'"

    def test_no_work_begins_after_a_failure(self, barrier: Barrier[str]) -> None:
        barrier.fail("a has gone")
        with pytest.raises(RoundFailed, match=r"^round 0: a has gone$"), barrier.work("the sum"):
            pytest.fail("begun")

    def test_a_refused_block_is_not_entered_and_fails_nothing(self, barrier: Barrier[str]) -> None:
        with pytest.raises(RoundFailed, match=r"^unknown trainer 'c'"), barrier.report("c"):
            pytest.fail("entered")
        assert barrier.failure is None

    def test_a_failure_may_be_told_under_a_lock_that_the_waiting_take(self, barrier: Barrier[str]) -> None:
        lock, heard = threading.Lock(), threading.Event()

        def take(_: object) -> None:
            if lock.acquire(timeout=1):
                lock.release()
                heard.set()

        barrier.join("a")[0].add_done_callback(take)
        with lock:
            barrier.fail("b is late")
        assert heard.wait(5)

    def test_a_closed_barrier_does_not_fail(self) -> None:
        with closing(Barrier[str](NAMES, 1, timeout=0.1)) as barrier:
            pass
        threading.Event().wait(0.2)
        assert barrier.failure is None


def calls_of(*names: str) -> dict[str, torch.futures.Future[int]]:
    return {name: torch.futures.Future() for name in names}


class TestGather:
    def test_a_round_that_fails_ends_the_wait(self) -> None:
        with closing(Barrier[str](NAMES, 2, timeout=0.1)) as barrier:
            calls = calls_of(*NAMES)
            barrier.join("a")[0].add_done_callback(passing_on(calls["a"]))
            with pytest.raises(RoundFailed, match=r"^round 0: nothing for 0\.1 s from b$"):
                barrier.gather(calls, stay=60)

    def test_a_failed_round_is_known_before_a_participant_hears_of_it(self) -> None:
        """Otherwise the failure of its own call could end the wait first, and be taken for the reason."""
        known, heard = [], threading.Event()
        with closing(Barrier[str](NAMES, 2, timeout=60)) as barrier:

            def hear(_: object) -> None:
                known.append(barrier.failed.done())
                heard.set()

            barrier.join("a")[0].add_done_callback(hear)
            barrier.fail("planted")
            assert heard.wait(60)
        assert known == [True]

    def test_after_the_last_round_who_does_not_end_is_named(self) -> None:
        with closing(Barrier[str](NAMES, 1, timeout=0.2)) as barrier:
            calls = calls_of(*NAMES)
            round_of(barrier, "last")
            calls["a"].set_result(1)
            ending = threading.Timer(3, calls["b"].set_result, (2,))  # should nobody miss it
            ending.start()
            with pytest.raises(RoundFailed, match=r"^round 1: nothing for 0\.2 s from b$"):
                barrier.gather(calls)
            ending.cancel()


def passing_on(call: torch.futures.Future[int]) -> Callable[[torch.futures.Future[Any]], None]:
    """A participant whose call fails of what it has waited for."""

    def pass_on(waited: torch.futures.Future[Any]) -> None:
        try:
            waited.value()
        except RuntimeError as error:
            call.set_exception(error)

    return pass_on
