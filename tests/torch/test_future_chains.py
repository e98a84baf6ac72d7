"""Many futures: chains of `then`, and fan-in. torch 2.13.0."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest
from torch.futures import Future, collect_all, wait_all

from reference.outcome import Killed, RoleFailed
from reference.world import World, launch
from tests.support import roles_futures as plays
from tests.support.answers import answer

IN_CALLBACK = "Got the following error when running the callback: "


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with launch(["a", "b"], deadline=150, options={"num_worker_threads": 16}) as world:
        yield world


def test_1000_calls_each_made_by_the_answer_of_the_one_before(world: World) -> None:
    assert world.call("a", plays.chain_of_calls, 1000, "b") == 1000


def test_a_very_long_chain_ends_the_process() -> None:
    """torch 2.13.0: each link is completed inside the one before, on one stack, and no exception says that it
    has overflowed: of 8 MiB, 3,000 links pass and 10,000 do not. In rounds there is no limit."""
    with launch(["a"], deadline=60) as long:
        assert long.call("a", plays.long_chain, 100_000, 1000) == 100_000
        with pytest.raises(RoleFailed, match=r"^a was killed by SIGSEGV$"):
            long.call("a", plays.long_chain, 100_000, 100_000)
        assert long.wait() == {"a": Killed(signal.SIGSEGV)}


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


def test_a_fan_in_of_an_error_in_a_callback_ends_at_once() -> None:
    """torch 2.13.0: the manual says that `collect_all` is complete when all are."""
    first, second = opened(2)
    collected = collect_all([second, first.then(plays.failing(ValueError("early")))])
    first.set_result(1)
    assert collected.done()
    assert not second.done()
    got = answer(collected.wait)
    assert got.error == "RuntimeError"
    assert got.text.startswith(f"{IN_CALLBACK}ValueError: early\n")
    second.set_result(2)
    assert answer(collected.wait).text == got.text


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
