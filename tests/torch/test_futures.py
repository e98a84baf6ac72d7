"""Futures: completed once, twice, wrongly; their callbacks, and where they run; chains and fan-in. torch 2.13.0."""

from __future__ import annotations

import copy
import pickle
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from torch.futures import Future, collect_all, wait_all

from reference.world import World, launch
from tests.support import roles_futures as plays
from tests.support.answers import answer
from tests.support.roles_futures import completed, failing

TWICE = (
    "Attempting to mark a completed Future as complete again. Note that a Future can only be marked completed once.",
    "RuntimeError",
)
NO_PICKLE = ("Can not pickle torch.futures.Future", "RuntimeError")
IN_CALLBACK = "Got the following error when running the callback: "


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with launch(["a", "b"], deadline=150, options={"num_worker_threads": 16}) as world:
        yield world


class TestCompletion:
    def test_reading_a_value_too_early_is_an_error(self) -> None:
        """torch 2.13.0: an internal assertion that asks for a bug report; afterwards all is as it was."""
        future: Future[Any] = Future()
        early = answer(future.value)
        assert early.error == "RuntimeError"
        assert re.match(r"completed\(\) INTERNAL ASSERT FAILED at .*ivalue_inl\.h\":\d+, please report", early.text)
        assert not future.done()
        future.set_result(1)
        assert future.done()
        assert future.value() == 1

    @pytest.mark.parametrize("future", [Future(), completed(1)], ids=["open", "completed"])
    @pytest.mark.parametrize("way", [pickle.dumps, copy.copy, copy.deepcopy])
    def test_pickles_and_copies_are_refused(self, way: Callable[[Any], Any], future: Future[Any]) -> None:
        assert answer(lambda: way(future)).short == NO_PICKLE


class TestCallbacks:
    def test_callbacks_run_in_the_thread_that_completes_the_future_and_later_ones_in_their_own(self) -> None:
        future: Future[Any] = Future()
        ran: list[int] = []
        future.add_done_callback(lambda _: ran.append(threading.get_ident()))
        completing = threading.Thread(target=future.set_result, args=(None,))
        completing.start()
        completing.join(10)
        future.add_done_callback(lambda _: ran.append(threading.get_ident()))
        future.then(lambda _: ran.append(threading.get_ident()))
        assert ran == [completing.ident, threading.get_ident(), threading.get_ident()]

    @pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
    def test_callbacks_that_raise_are_swallowed_by_add_done_callback(
        self, late: bool, capfd: pytest.CaptureFixture[str]
    ) -> None:
        """torch 2.13.0: the other callbacks run, nobody is told but standard error. `then` keeps the error."""
        future: Future[Any] = Future()
        ran: list[int] = []
        if late:
            future.set_result(5)
        future.add_done_callback(lambda _: ran.append(1))
        future.add_done_callback(failing(ValueError("swallowed")))
        future.add_done_callback(lambda _: ran.append(3))
        if not late:
            future.set_result(5)
        assert ran == [1, 3]
        assert future.wait() == 5
        assert capfd.readouterr().err.count(f"{IN_CALLBACK}ValueError: swallowed") == 1

    @pytest.mark.parametrize(
        "error",
        [ValueError("kept"), SystemExit(3), KeyboardInterrupt("now")],
        ids=repr,
    )
    def test_callbacks_that_raise_in_then_fail_its_future_without_their_type(self, error: Any) -> None:
        """torch 2.13.0, upstream issue 51673: even by what would leave the program. The future itself is unharmed."""
        future = completed(5)
        wrong = answer(future.then(failing(error)).wait)
        assert wrong.error == "RuntimeError"
        assert wrong.text.startswith(f"{IN_CALLBACK}{type(error).__name__}: {error}\n")
        assert future.wait() == 5

    @pytest.mark.parametrize(("kind", "got"), [(threading.Lock, False), (threading.RLock, True)])
    def test_callbacks_run_under_the_lock_of_the_thread_that_completes_the_future(self, kind: Any, got: bool) -> None:
        """torch 2.13.0, inline: a callback that waits for that lock waits for its own thread: here 0.2 s, otherwise
        forever. `batch_parameter_server` completes futures outside its lock."""
        lock, taken = kind(), list[bool]()
        future: Future[Any] = Future()
        future.add_done_callback(lambda _: taken.append(lock.acquire(timeout=0.2)))
        with lock:
            future.set_result(None)
        assert taken == [got]


class TestOfCalls:
    """Futures that `rpc_async` gives."""

    def test_a_calls_future_can_be_completed_by_the_caller_and_the_answer_is_lost_without_a_word(
        self, world: World
    ) -> None:
        """torch 2.13.0: the manual forbids it and nothing prevents it. The agent survives the answer."""
        value, again, later = world.call("a", plays.overtaken, "b")
        assert value.short == ("mine", "str")
        assert again.short == TWICE
        assert later.short == (3, "int")

    def test_a_callback_that_fails_to_read_an_error_completes_nothing(self, world: World) -> None:
        """torch 2.13.0, upstream issues 52132 and 52166: waiting for the other future never ends. The control
        catches the error."""
        assert world.call("a", plays.never_set_after_an_error, "b", False) is False
        assert world.call("a", plays.never_set_after_an_error, "b", True) is True

    def test_a_future_is_not_sent_as_an_argument(self, world: World) -> None:
        """The caller's own pickler refuses it before anything is sent."""
        assert world.call("a", plays.send_a_future, "b").short == NO_PICKLE


# Fan-in.


def opened(count: int) -> list[Future[Any]]:
    return [Future() for _ in range(count)]


@pytest.mark.parametrize("failing", [(1,), (0, 2), (2, 1), (0, 1, 2)], ids=str)
def test_a_fan_in_of_set_exceptions_waits_for_all_and_raises_the_first_of_the_list(failing: tuple[int, ...]) -> None:
    """torch 2.13.0: to a future, an exception that was set is a value; only reading raises it. The type stays."""
    futures = opened(3)
    collected = collect_all(futures)
    for number in (2, 1, 0):
        assert not collected.done()
        if number in failing:
            futures[number].set_exception(ValueError(f"future {number}"))
        else:
            futures[number].set_result(number)
    wanted = (f"future {min(failing)}", "ValueError")
    assert [answer(read).short for read in (collected.wait, lambda: wait_all(futures))] == [wanted] * 2


@pytest.mark.parametrize("way", ["wait_all", "collect_all"])
@pytest.mark.parametrize(
    ("calls", "wanted"),
    [
        ([], ([], "list")),
        (["ok", "ok", "ok"], ([0, 1, 2], "list")),
        (["ok", "no", "ok"], "call 1"),
        (["no", "ok", "ok", "ok"], "call 0"),
    ],
    ids=str,
)
def test_a_fan_in_of_calls_gives_their_results_or_error(
    world: World, way: str, calls: list[str], wanted: object
) -> None:
    got = world.call("a", plays.fan_in, way, calls, "b")
    if isinstance(wanted, str):
        assert got.error == "ValueError"
        assert got.text.startswith(f"ValueError: On WorkerInfo(id=1, name=b):\nValueError('{wanted}')\n")
    else:
        assert got.short == wanted


@pytest.mark.parametrize("way", ["wait_all", "collect_all"])
def test_a_fan_in_with_a_failed_call_does_not_wait_for_a_silent_one(world: World, way: str) -> None:
    """The control: two silent ones last until the first timeout, 1 s."""
    early = world.call("a", plays.fan_in, way, ["never", "no", "ok"], "b")
    assert early.error == "ValueError"
    assert early.text.count("call 1") > 0
    assert early.seconds < 0.8
    silent = world.call("a", plays.fan_in, way, ["ok", "never", "never"], "b")
    assert silent.short == (
        "RPCErr:1:RPC ran for more than set timeout (1000 ms) and will now be marked with an error",
        "RuntimeError",
    )
    assert 0.9 <= silent.seconds < 4
