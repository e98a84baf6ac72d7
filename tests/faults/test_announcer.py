"""Moments are announced once, in the announcing thread, and only to this role's own actions."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from logging.handlers import BufferingHandler

from faults.inject.announcer import Announcer, hear_steps
from faults.plan.places import Moment


def test_each_action_runs_once_before_the_role_goes_on() -> None:
    announcer, seen = Announcer("ps"), list[str]()
    for name in "ab":
        announcer.subscribe(Moment.parse("up@ps"), partial(seen.append, name))
    announcer.subscribe(Moment.parse("shutdown@ps"), partial(seen.append, "c"))
    announcer.announce("up")
    announcer.announce("up")
    assert seen == ["a", "b"]
    announcer.announce("shutdown")
    assert seen == ["a", "b", "c"]


def test_only_the_named_call_and_step_are_announced() -> None:
    announcer, seen = Announcer("ps"), list[str]()
    announcer.subscribe(Moment.parse("call:m:f#2@ps"), partial(seen.append, "call"))
    announcer.subscribe(Moment.parse("step:2@ps"), partial(seen.append, "step"))
    for other in [("call", 1, "m:f"), ("call", 2, "m:g"), ("step", 1, ""), ("step", 3, ""), ("up", 2, "")]:
        announcer.announce(*other)
    assert seen == []
    announcer.announce("call", 2, "m:f")
    announcer.announce("step", 2)
    assert seen == ["call", "step"]


def test_many_threads_at_one_moment_act_once() -> None:
    announcer, seen, together = Announcer("ps"), list[int](), threading.Barrier(8)
    announcer.subscribe(Moment.parse("up@ps"), lambda: seen.append(threading.get_ident()))

    def arrive(_: int) -> int:
        together.wait(timeout=30)
        announcer.announce("up")
        return threading.get_ident()

    with ThreadPoolExecutor(8) as pool:
        threads = set(pool.map(arrive, range(8)))
    assert len(seen) == 1
    assert seen[0] in threads


def test_an_action_may_announce_and_subscribe() -> None:
    announcer, seen = Announcer("ps"), list[str]()
    announcer.subscribe(Moment.parse("shutdown@ps"), partial(seen.append, "later"))
    announcer.subscribe(Moment.parse("up@ps"), partial(announcer.announce, "shutdown"))
    announcer.announce("up")
    assert seen == ["later"]


def test_steps_are_heard_in_the_log_and_the_programs_logging_is_left_alone() -> None:
    announcer, seen, before = Announcer("ps"), list[int](), list(logging.getLogger().handlers)
    for step in (1, 2):
        announcer.subscribe(Moment.parse(f"step:{step}@ps"), partial(seen.append, step))
    logger, told = logging.Logger("steps", logging.INFO), BufferingHandler(100)
    logger.addHandler(told)
    undo = hear_steps(partial(announcer.announce, "step"))
    try:
        assert logging.getLogger().handlers == before  # a handler there would make `logging.basicConfig` do nothing
        for extra in ({}, {"step": None}, {"step": True}, {"step": "1"}, {"step": 1.0}, {"step": 3}):
            logger.info("no step", extra=extra)
        logger.debug("not logged", extra={"step": 1})
        assert seen == []
        logger.info("step", extra={"step": 2})
        logger.info("step", extra={"step": 2})
        assert seen == [2]
        assert [each.getMessage() for each in told.buffer] == [*["no step"] * 6, "step", "step"]
    finally:
        undo()
    logger.info("step", extra={"step": 1})
    assert seen == [2]
    assert logging.Logger.callHandlers.__qualname__ == "Logger.callHandlers"
