"""Delayed replies: when they are sent, and that none is sent after the end."""

from __future__ import annotations

import threading
import time

import pytest

from faults.inject.call.replies import DelayedReplies


def test_the_effect_is_recorded_before_the_answer() -> None:
    later, seen, given, start = DelayedReplies(), [], threading.Event(), time.monotonic()

    def give() -> None:
        seen.append("answer")
        given.set()

    later.answer(0.2, lambda: seen.append("effect"), give)
    assert seen == []
    assert given.wait(10)
    assert time.monotonic() - start >= 0.2
    assert seen == ["effect", "answer"]


def join_timers() -> None:
    """Timers that are canceled end at once, others after their seconds."""
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.join(10)


@pytest.mark.parametrize("elapsed", [False, True])
@pytest.mark.parametrize("give", [False, True])
def test_closing_answers_at_once_or_never(give: bool, elapsed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if elapsed:  # the timer's thread waits for the lock already
        monkeypatch.setattr(threading.Timer, "cancel", lambda timer: None)
    later, seen = DelayedReplies(), []
    later.answer(0.2, lambda: seen.append("effect"), lambda: seen.append("answer"))
    begin = time.monotonic()
    later.close(give=give)
    assert time.monotonic() - begin < 5
    join_timers()
    assert seen == (["answer"] if give else [])
    later.answer(0.01, lambda: seen.append("effect"), lambda: seen.append("late"))
    assert seen == (["answer", "late"] if give else [])


def test_who_has_closed_for_ever_gives_no_more() -> None:
    """The agent has ended: an answer would end the process by SIGSEGV."""
    later, seen = DelayedReplies(), []
    later.close(give=False)
    later.close(give=True)
    later.answer(0.01, lambda: seen.append("effect"), lambda: seen.append("answer"))
    assert seen == []


def test_closing_waits_for_an_answer_that_is_being_given() -> None:
    later, seen, giving, go = DelayedReplies(), [], threading.Event(), threading.Event()

    def give() -> None:
        giving.set()
        go.wait(10)
        seen.append("answer")

    def close() -> None:
        later.close(give=False)
        seen.append("closed")

    later.answer(0.001, lambda: None, give)
    assert giving.wait(10)
    closing = threading.Thread(target=close)
    closing.start()
    closing.join(0.05)
    assert closing.is_alive()
    go.set()
    closing.join(10)
    assert seen == ["answer", "closed"]
