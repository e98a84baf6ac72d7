"""Rounds: refused reports, the results of participants, and failing rounds."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from operator import itemgetter
from typing import Any

import pytest
import torch

from reference.rpc.rounds import RoundFailed, Rounds

NAMES = ("a", "b")


class StepFailed(RoundFailed):
    unit, member = "step", "worker"


@pytest.fixture
def rounds() -> Iterator[Rounds[str]]:
    with closing(Rounds[str](NAMES, 2, timeout=60)) as made:
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


def round_of(rounds: Rounds[str], result: str) -> list[str]:
    futures = [rounds.join(name)[0] for name in NAMES]
    rounds.complete(result)
    return [result_of(future) for future in futures]


class TestJoin:
    def test_only_the_last_report_completes_a_round(self, rounds: Rounds[str]) -> None:
        """The batch server sends its live model, because the next update waits for all (S2.5)."""
        assert [rounds.join(name)[1] for name in NAMES] == [False, True]

    def test_each_participant_may_pick_its_own_part_of_the_result(self, rounds: Rounds[str]) -> None:
        futures = [rounds.join(name, pick=pick)[0] for name, pick in zip(NAMES, (itemgetter(1), None), strict=True)]
        rounds.complete("xy")
        assert [result_of(future) for future in futures] == ["y", "xy"]

    def test_a_stranger_is_refused(self, rounds: Rounds[str]) -> None:
        with pytest.raises(RoundFailed, match=r"^unknown trainer 'c', wanted one of a, b$"):
            rounds.join("c")

    def test_a_second_report_is_refused_and_the_round_goes_on(self, rounds: Rounds[str]) -> None:
        first, _ = rounds.join("a")
        with pytest.raises(RoundFailed, match=r"^round 0: a reports twice$"):
            rounds.join("a")
        assert rounds.join("b")[1]
        rounds.complete("one")
        assert result_of(first) == "one"

    def test_a_report_after_the_last_round_is_refused(self, rounds: Rounds[str]) -> None:
        round_of(rounds, "one")
        round_of(rounds, "two")
        with pytest.raises(RoundFailed, match=r"^a reports after the last of 2 rounds$"):
            rounds.join("a")

    def test_the_errors_have_the_class_and_the_words_of_the_users(self) -> None:
        with (
            closing(Rounds[str](NAMES, 1, timeout=60, error=StepFailed)) as rounds,
            pytest.raises(StepFailed, match=r"^unknown worker 'c', wanted one of a, b$"),
        ):
            rounds.join("c")


class TestFailure:
    def test_a_failure_ends_every_wait_and_refuses_later_reports_with_its_first_reason(
        self, rounds: Rounds[str]
    ) -> None:
        waiting, _ = rounds.join("a")
        rounds.fail("b is late")
        rounds.fail("never mind")
        assert error_of(waiting) == "RoundFailed: round 0: b is late"
        with pytest.raises(RoundFailed, match=r"^round 0: b is late$"):
            rounds.join("b")

    def test_a_round_that_is_not_complete_in_time_names_who_is_missing(self) -> None:
        with closing(Rounds[str](("a", "b", "c"), 2, timeout=0.1)) as rounds:
            waiting, _ = rounds.join("b")
            assert error_of(waiting) == "RoundFailed: round 0: nothing for 0.1 s from a, c"
            assert rounds.silent == ["a", "c"]

    def test_each_round_has_the_whole_time(self, rounds: Rounds[str]) -> None:
        before = max(rounds.last.values())
        round_of(rounds, "in time")
        assert min(rounds.last.values()) > before

    def test_a_failure_while_the_last_report_is_worked_on_is_the_result(self, rounds: Rounds[str]) -> None:
        futures = [rounds.join(name)[0] for name in NAMES]
        rounds.fail("a has gone")
        rounds.complete("too late")
        assert [error_of(future) for future in futures] == ["RoundFailed: round 0: a has gone"] * 2

    def test_a_block_that_fails_fails_the_round(self, rounds: Rounds[str]) -> None:
        waiting, _ = rounds.join("a")
        with (
            pytest.raises(RoundFailed, match=r"^round 0: the report of b failed: KeyError: 'no'$"),
            rounds.report("b"),
        ):
            raise KeyError("no")
        assert error_of(waiting) == "RoundFailed: round 0: the report of b failed: KeyError: 'no'"

    def test_no_work_begins_after_a_failure(self, rounds: Rounds[str]) -> None:
        rounds.fail("a has gone")
        with pytest.raises(RoundFailed, match=r"^round 0: a has gone$"), rounds.work("the sum"):
            pytest.fail("begun")

    def test_a_failure_may_be_told_under_a_lock_that_the_waiting_take(self, rounds: Rounds[str]) -> None:
        lock, heard = threading.Lock(), threading.Event()

        def take(_: object) -> None:
            if lock.acquire(timeout=1):
                lock.release()
                heard.set()

        rounds.join("a")[0].add_done_callback(take)
        with lock:
            rounds.fail("b is late")
        assert heard.wait(5)


def calls_of(*names: str) -> dict[str, torch.futures.Future[Any]]:
    return {name: torch.futures.Future() for name in names}


class TestGather:
    def test_a_failed_round_is_known_before_a_participant_hears_of_it(self) -> None:
        """Otherwise the failure of its own call could end the wait first, and be taken for the reason."""
        known, heard = [], threading.Event()
        with closing(Rounds[str](NAMES, 2, timeout=60)) as rounds:

            def hear(_: object) -> None:
                known.append(rounds.failed.done())
                heard.set()

            rounds.join("a")[0].add_done_callback(hear)
            rounds.fail("planted")
            assert heard.wait(60)
        assert known == [True]

    def test_after_the_last_round_who_does_not_end_is_named(self) -> None:
        with closing(Rounds[str](NAMES, 1, timeout=0.2)) as rounds:
            calls = calls_of(*NAMES)
            round_of(rounds, "last")
            calls["a"].set_result(1)
            ending = threading.Timer(3, calls["b"].set_result, (2,))  # should nobody miss it
            ending.start()
            with pytest.raises(RoundFailed, match=r"^round 1: nothing for 0\.2 s from b$"):
                rounds.gather(calls)
            ending.cancel()

    @pytest.mark.parametrize("together", [True, False])
    def test_a_failing_call_fails_the_round_with_its_error(self, together: bool) -> None:
        calls = calls_of(*NAMES)
        calls["b"].set_exception(ValueError("the pole is gone"))
        calls["a"].set_result(0)
        rounds = Rounds[str](NAMES, 2, 60, StepFailed, together=together)
        with pytest.raises(StepFailed, match=r"^step 0: b failed: the pole is gone$"):
            rounds.gather(calls)
        with pytest.raises(StepFailed, match=r"^step 0: b failed: the pole is gone$"):
            rounds.join("a")


class TestApart:
    def test_a_participant_that_has_ended_is_not_silent(self) -> None:
        """Together it would be missing, because it did not report."""
        calls = calls_of(*NAMES)
        calls["a"].set_result(0)
        with (
            closing(Rounds[str](NAMES, 2, timeout=0.2, together=False)) as rounds,
            pytest.raises(RoundFailed, match=r"^round 0: nothing for 0\.2 s from b$"),
        ):
            rounds.gather(calls)

    def test_together_who_has_ended_without_a_report_is_missing(self) -> None:
        calls = calls_of(*NAMES)
        calls["b"].set_result(0)
        with closing(Rounds[str](NAMES, 2, timeout=0.2)) as rounds:
            rounds.join("a")
            with pytest.raises(RoundFailed, match=r"^round 0: nothing for 0\.2 s from b$"):
                rounds.gather(calls, stay=0)
