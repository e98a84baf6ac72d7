"""Rounds: the words of refused reports, each participant's result, and who is told of a failure, and when.

tests/properties/test_rounds_machine.py has a server's rounds whatever its trainers do.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from operator import itemgetter
from typing import Any

import pytest
import torch

from reference import batch_parameter_server, hybrid_ddp
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


def test_only_the_last_report_completes_a_round(rounds: Rounds[str]) -> None:
    """The batch server sends its live model, because the next update waits for all (S2.5)."""
    assert [rounds.join(name)[1] for name in NAMES] == [False, True]


def test_each_participant_may_pick_its_own_part_of_the_result(rounds: Rounds[str]) -> None:
    futures = [rounds.join(name, pick=pick)[0] for name, pick in zip(NAMES, (itemgetter(1), None), strict=True)]
    rounds.swap_future().set_result("xy")
    assert [result_of(future) for future in futures] == ["y", "xy"]


@pytest.mark.parametrize(
    ("before", "name", "why"),
    [
        ("", "c", "unknown trainer 'c', wanted one of a, b"),
        ("a", "a", "round 0: a reports twice"),
        ("abab", "a", "a reports after the last of 2 rounds"),
    ],
    ids=["stranger", "twice", "late"],
)
def test_a_report_that_nobody_waits_for_is_refused(rounds: Rounds[str], before: str, name: str, why: str) -> None:
    for each in before:
        if rounds.join(each)[1]:
            rounds.swap_future().set_result("")
    with pytest.raises(RoundFailed, match=f"^{why}$"):
        rounds.join(name)


def test_a_refusal_has_the_class_and_the_words_of_the_users() -> None:
    with (
        closing(Rounds[str](NAMES, 1, 60, StepFailed)) as rounds,
        pytest.raises(StepFailed, match=r"^unknown worker 'c', wanted one of a, b$"),
    ):
        rounds.join("c")


def test_no_work_begins_after_a_failure(rounds: Rounds[str]) -> None:
    rounds.fail("a has gone")
    with pytest.raises(RoundFailed, match=r"^round 0: a has gone$"), rounds.work("the sum"):
        pytest.fail("begun")


def test_a_failure_may_be_told_under_a_lock_that_the_waiting_take(rounds: Rounds[str]) -> None:
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


def test_a_failed_round_is_known_before_a_participant_hears_of_it(rounds: Rounds[str]) -> None:
    """Otherwise the failure of its own call could end the wait first, and be taken for the reason."""
    known, heard = [], threading.Event()

    def hear(_: object) -> None:
        known.append(rounds.failed.done())
        heard.set()

    rounds.join("a")[0].add_done_callback(hear)
    rounds.fail("planted")
    assert heard.wait(60)
    assert known == [True]


def test_after_the_last_round_who_does_not_end_is_named() -> None:
    calls = calls_of(*NAMES)
    with closing(Rounds[str](NAMES, 1, timeout=0.2)) as rounds:
        for name in NAMES:
            rounds.join(name)
        rounds.swap_future().set_result("last")
        calls["a"].set_result(1)
        ending = threading.Timer(3, calls["b"].set_result, (2,))  # should nobody miss it
        ending.start()
        with pytest.raises(RoundFailed, match=r"^round 1: nothing for 0\.2 s from b$"):
            rounds.gather(calls)
        ending.cancel()


@pytest.mark.parametrize("together", [True, False])
def test_a_failing_call_fails_the_round_with_its_error(together: bool) -> None:
    calls = calls_of(*NAMES)
    calls["b"].set_exception(ValueError("the pole is gone"))
    calls["a"].set_result(0)
    rounds = Rounds[str](NAMES, 2, 60, StepFailed, together=together)
    with pytest.raises(StepFailed, match=r"^step 0: b failed: the pole is gone$"):
        rounds.gather(calls)
    with pytest.raises(StepFailed, match=r"^step 0: b failed: the pole is gone$"):
        rounds.join("a")


@pytest.mark.parametrize(("together", "missing"), [(True, "b"), (False, "a")])
def test_together_who_has_ended_without_a_report_is_missing_and_apart_is_not(together: bool, missing: str) -> None:
    calls = calls_of(*NAMES)
    calls["b"].set_result(0)
    with closing(Rounds[str](NAMES, 2, timeout=0.2, together=together)) as rounds:
        rounds.join("a")
        with pytest.raises(RoundFailed, match=rf"^round 0: nothing for 0\.2 s from {missing}$"):
            rounds.gather(calls, stay=0)


def made(tutorial: str) -> Rounds[Any]:
    if tutorial == "hybrid_ddp":
        return hybrid_ddp.EmbeddingServer(hybrid_ddp.Case()).step
    return batch_parameter_server.BatchUpdateParameterServer(batch_parameter_server.Case(model="mlp")).round


@pytest.mark.parametrize("tutorial", ["batch_parameter_server", "hybrid_ddp"])
def test_the_time_of_a_servers_first_round_begins_when_its_state_is_there(
    tutorial: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large one takes long to read, and until then no trainer can report."""
    before, watching = {*threading.enumerate()}, list[set[str]]()

    def told(**owners: object) -> int:
        watching.append({each.name for each in {*threading.enumerate()} - before})
        return 0

    monkeypatch.setattr(f"reference.{tutorial}.resume", told)
    made(tutorial).close()
    assert watching == [set()]
