"""Waiting for participants: results in order, and an end that names whoever fails or is silent."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import torch

from reference.rpc.liveness import Failure, Liveness, ParticipantFailed, gather

Future = torch.futures.Future


def futures(*names: str) -> dict[str, Future[int]]:
    return {name: Future() for name in names}


def test_a_silent_participant_is_named() -> None:
    given = futures("a", "b", "c")
    given["a"].set_result(1)
    with pytest.raises(ParticipantFailed, match=r"^nothing for 0\.2 s from b, c$"):
        Liveness("abc", 0.2).gather(given)


def test_a_participant_that_waits_for_others_is_not_silent() -> None:
    with pytest.raises(ParticipantFailed, match=r"^nothing for 0\.2 s from b$"):
        Liveness("ab", 0.2, waiting=lambda: {"a"}).gather(futures("a", "b"))


def test_a_participant_that_calls_is_not_silent() -> None:
    liveness = Liveness("ab", 3.0)
    liveness.last = {"a": 8.0, "b": 10.0}
    assert liveness.silent("ab", 10.9) == []
    assert liveness.silent("ab", 11.5) == ["a"]
    assert liveness.silent("b", 11.5) == []
    before = time.monotonic()
    liveness.heartbeat("a")
    assert liveness.last["a"] >= before


def fails(future: Future[int], error: Exception) -> Callable[[str], None]:
    """End another participant's wait, as a server does that hears of a failure, and note the reason."""

    def on_failure(reason: str) -> None:
        future.set_exception(error)

    return on_failure


class TestGather:
    def test_gather_tells_of_the_first_failure_and_raises_it(self) -> None:
        given, told = futures("a", "b", "c"), list[str]()
        given["b"].set_exception(ValueError("no more"))
        with pytest.raises(ParticipantFailed, match=r"^b failed: no more$") as caught:
            gather(given, told.append)
        assert told == ["b failed: no more"]
        assert isinstance(caught.value.__cause__, ValueError)

    def test_gather_stays_until_the_others_have_heard_and_names_all_who_failed(self) -> None:
        given = futures("a", "b", "c")
        given["b"].set_exception(ValueError("no more"))
        given["c"].set_result(3)
        end_the_wait_of_a = fails(given["a"], ValueError("not without b"))
        with pytest.raises(ParticipantFailed, match=r"^b failed: no more; a failed: not without b$"):
            gather(given, end_the_wait_of_a, stay=60)

    def test_gather_does_not_stay_for_silent_participants(self) -> None:
        failed: Future[Failure] = Future()
        failed.set_result(Failure("nothing for 1 s from a", silent=["a"]))
        start = time.monotonic()
        with pytest.raises(ParticipantFailed, match=r"^nothing for 1 s from a$"):
            gather(futures("a"), failed=failed, stay=4)
        assert time.monotonic() - start < 2
