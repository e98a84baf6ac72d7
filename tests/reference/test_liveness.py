"""Waiting for participants: results in order, and an end that names whoever fails or is silent."""

from __future__ import annotations

import time

import pytest
import torch

from reference.rpc.liveness import Attendance, ParticipantFailed, cause_of

Future = torch.futures.Future


def futures(*names: str) -> dict[str, Future[int]]:
    return {name: Future() for name in names}


def test_results_in_the_order_of_the_futures() -> None:
    given = futures("a", "b", "c")
    for value, name in enumerate("cab"):
        given[name].set_result(value)
    assert list(Attendance("abc", 1).collect(given).items()) == [("a", 1), ("b", 2), ("c", 0)]


def test_a_failure_ends_the_wait_although_others_go_on() -> None:
    given = futures("a", "b")
    given["b"].set_exception(ValueError("no more"))
    start = time.monotonic()
    with pytest.raises(ParticipantFailed, match=r"^b failed: no more$"):
        Attendance("ab", 60).collect(given)
    assert time.monotonic() - start < 30


def test_silence_is_named() -> None:
    given = futures("a", "b", "c")
    given["a"].set_result(1)
    with pytest.raises(ParticipantFailed, match=r"^nothing for 0\.2 s from b, c$"):
        Attendance("abc", 0.2).collect(given)


def test_who_waits_for_others_is_not_silent() -> None:
    with pytest.raises(ParticipantFailed, match=r"^nothing for 0\.2 s from b$"):
        Attendance("ab", 0.2, excused=lambda: {"a"}).collect(futures("a", "b"))


def test_who_calls_is_not_silent() -> None:
    attendance = Attendance("ab", 3.0)
    attendance.last = {"a": 8.0, "b": 10.0}
    assert attendance.silent("ab", 10.9) == []
    assert attendance.silent("ab", 11.5) == ["a"]
    assert attendance.silent("b", 11.5) == []
    before = time.monotonic()
    attendance.heard("a")
    assert attendance.last["a"] >= before


def test_a_cause_in_one_line() -> None:
    assert cause_of(RuntimeError("On WorkerInfo(id=1, name=b):\nValueError: x\nTraceback")) == "ValueError: x"
    assert cause_of(RuntimeError("")) == "RuntimeError"
