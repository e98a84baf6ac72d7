"""The answers of @async_execution functions: values, errors, and futures that never complete. torch 2.13.0."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from reference.outcome import Returned
from reference.world import World, launch
from tests.support import roles_futures as plays
from tests.support import roles_plain as others

IN_CALLBACK = "Got the following error when running the callback: "
TIMED_OUT = "RPCErr:1:RPC ran for more than set timeout ({} ms) and will now be marked with an error"
ON_B = "On WorkerInfo(id=1, name=b):\n"


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with launch(["a", "b"], deadline=150) as world:
        yield world


class TestErrors:
    @pytest.mark.parametrize("ask", [plays.call, plays.fetch], ids=["rpc_async", "remote"])
    @pytest.mark.parametrize("later", [False, True])
    def test_an_exception_that_was_set_arrives_as_a_value(self, world: World, ask: Any, later: bool) -> None:
        """torch 2.13.0: the caller is told that all went well, and holds an exception object. (`set_exception` came
        with upstream's PR 50983; no issue of upstream's was found.)"""
        got = world.call("a", ask, plays.sets_exception, "b", later)
        assert got.error == ""
        assert repr(got.value) == "ValueError('set')"

    @pytest.mark.parametrize("ask", [plays.call, plays.fetch], ids=["rpc_async", "remote"])
    @pytest.mark.parametrize(
        ("function", "text"),
        [(plays.raises_in_then, "ValueError: raised\n"), (plays.sets_exception_then_reads, "ValueError: set\n")],
        ids=["raised", "set, then read"],
    )
    def test_an_exception_through_then_is_raised_without_its_type(
        self, world: World, ask: Any, function: Any, text: str
    ) -> None:
        """torch 2.13.0, upstream issue 51673. The reference's way (`batch_parameter_server`)."""
        got = world.call("a", ask, function, "b")
        assert got.error == "RuntimeError"
        assert got.value is None
        assert got.text.startswith(IN_CALLBACK + text)

    def test_an_exception_before_there_is_a_future_keeps_its_type(self, world: World) -> None:
        got = world.call("a", plays.call, plays.raises_at_once, "b")
        assert got.error == "ValueError"
        assert got.text.startswith(f"ValueError: {ON_B}ValueError('at once')\n")

    def test_an_error_loses_its_type_at_the_second_hop(self, world: World) -> None:
        """torch 2.13.0: b answers with the future of a call to a, which refuses. The control: the same call at once."""
        direct = world.call("b", plays.call, plays.refuse, "a", "far")
        through = world.call("a", plays.call, plays.forwards, "b", "a", "far")
        assert direct.error == "ValueError"
        assert through.error == "RuntimeError"
        for got in (direct, through):
            assert got.text.startswith("ValueError: On WorkerInfo(id=0, name=a):\nValueError('far')\n")

    def test_what_refused_exceptions_corrupt_is_healed_by_the_way(self, world: World) -> None:
        """torch 2.13.0: reading that future on its own role raises TypeError, its caller gets the value."""
        assert world.call("a", plays.call, plays.corrupted, "b").short == (1, "int")


class TestAnswers:
    @pytest.mark.parametrize(
        ("function", "text"),
        [
            (plays.a_future_of_a_future, "RuntimeError: Can not pickle torch.futures.Future"),
            (plays.a_fan_in, "RuntimeError: Can not pickle torch.futures.Future"),
            (plays.an_unsendable_value, "TypeError: cannot pickle '_thread.lock' object"),
        ],
    )
    def test_a_value_that_cannot_be_sent_is_an_error_and_not_a_timeout(
        self, world: World, function: Any, text: str
    ) -> None:
        got = world.call("a", plays.call, function, "b")
        assert got.error == "RuntimeError"
        assert got.text.splitlines()[0] == text
        assert got.seconds < 5


@pytest.mark.parametrize("keep", [True, False], ids=["kept", "dropped"])
class TestNeverCompleted:
    """The callee may keep the future that it never completes, or forget it: this makes no difference."""

    def test_a_call_that_never_completes_ends_at_the_callers_timeout_and_holds_up_nobody(
        self, world: World, keep: bool
    ) -> None:
        got, beside = world.call("a", plays.unanswered_beside_others, keep, "b", 1.0)
        assert got.short == (TIMED_OUT.format(1000), "RuntimeError")
        assert 0.9 <= got.seconds < 4
        assert [each.short for each in beside] == [(1, "int"), (2, "int"), (3, "int")]

    @pytest.mark.parametrize(("timeout", "awaited"), [(0.3, True), (1.2, False)], ids=["given up", "open"])
    def test_a_call_that_never_completes_holds_a_graceful_shutdown_only_while_it_is_open(
        self, keep: bool, timeout: float, awaited: bool
    ) -> None:
        """torch 2.13.0: the caller's open call holds it until that call's timeout, and no error comes of it. Once the
        caller has given up nothing holds it: 0.04 s from there to the end was seen."""
        with launch(
            {"a": partial(plays.leave_unanswered, keep, awaited, timeout), "b": others.nothing}, deadline=30
        ) as world:
            outcomes = world.wait()
        assert isinstance(outcomes["a"], Returned)
        left = outcomes["a"].value
        assert outcomes == {"a": Returned(left), "b": Returned(None)}
        assert isinstance(left, float)
        took = max(world.ended.values()) - left
        assert (took < 3) if awaited else (timeout - 0.1 <= took < timeout + 3)


@pytest.fixture(scope="module")
def three() -> Iterator[World]:
    with launch(["a", "b", "c"], deadline=150, options={"num_worker_threads": 4}) as world:
        yield world


class TestNestedCalls:
    """b has four threads; a asks it at once for what waits at c, which has an answer when all have arrived there."""

    def ask(self, world: World, function: Any, count: int, timeout: float = 10.0, own_timeout: float = 20.0) -> Any:
        world.call("c", plays.forget)
        world.call("a", plays.start_nested, function, count, timeout, own_timeout)
        assert world.call("c", plays.await_waiting, count)
        world.call("c", plays.give)
        return world.call("a", plays.take_nested)

    def test_fewer_nested_calls_than_threads_are_answered(self, three: World) -> None:
        assert [each.short for each in self.ask(three, plays.waits_through, 3)] == [(1, "int")] * 3

    def test_as_many_nested_calls_as_threads_wait_for_each_other_and_their_role_never_answers_again(self) -> None:
        """torch 2.13.0: an answer, too, needs a free thread. And it has ended the timeout of its call when it came:
        b's calls to c, with a timeout of 1 s, do not end after 2 s, nor does anything else at b. With torch's
        default of 16 threads so do 16 nested calls; a graceful shutdown waits for them forever."""
        with launch(["a", "b", "c"], deadline=60, options={"num_worker_threads": 4}) as world:
            ends = self.ask(world, plays.waits_through, 4, 1.0, 2.0)
            later = world.call("a", partial(plays.call, timeout=0.5), others.add, "b", 1, 2)
        assert [each.error for each in (*ends, later)] == ["RuntimeError"] * 5
        assert [each.text for each in ends] == [TIMED_OUT.format(2000)] * 4
        assert later.text == TIMED_OUT.format(500)

    @pytest.mark.parametrize("count", [3, 4])
    def test_answering_with_the_future_needs_no_threads(self, three: World, count: int) -> None:
        """This is the purpose of @async_execution."""
        assert [each.short for each in self.ask(three, plays.waits_through_a_future, count)] == [(1, "int")] * count


def test_contexts_of_distributed_autograd_do_not_nest(world: World) -> None:
    nested, afterwards = world.call("a", plays.nested_contexts)
    assert nested.short == ("Already have an autograd context id for this thread.", "RuntimeError")
    assert afterwards
