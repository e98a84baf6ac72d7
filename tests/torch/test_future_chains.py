"""Many futures: chains of `then`, fan-in, and random trees of both against a model in plain Python. torch 2.13.0."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.futures import Future, collect_all, wait_all

from reference.outcome import Killed, RoleFailed
from reference.world import World, launch
from tests.support import roles_futures as plays
from tests.support.answers import answer
from tests.support.future_trees import Branch, Error, Leaf, Tree, Value, leaves, nodes, states

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


class TestFanIn:
    @pytest.mark.parametrize("failing", [(1,), (0, 2), (2, 1), (0, 1, 2)], ids=str)
    def test_a_fan_in_of_set_exceptions_waits_for_all_and_raises_the_first_of_the_list(
        self, failing: tuple[int, ...]
    ) -> None:
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

    def test_a_fan_in_of_an_error_in_a_callback_ends_at_once(self) -> None:
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
        self, world: World, way: str, calls: list[str], wanted: object
    ) -> None:
        got = world.call("a", plays.fan_in, way, calls, "b")
        if isinstance(wanted, str):
            assert got.error == "ValueError"
            assert got.text.startswith(f"ValueError: On WorkerInfo(id=1, name=b):\nValueError('{wanted}')\n")
        else:
            assert got.short == wanted

    @pytest.mark.parametrize("way", ["wait_all", "collect_all"])
    def test_a_fan_in_with_a_failed_call_does_not_wait_for_a_silent_one(self, world: World, way: str) -> None:
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


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """Up to 6 leaves, each here or at the other role, about a third failing, completed in any order."""
    count = 0

    def number() -> int:
        nonlocal count
        count += 1
        return count

    def leaf() -> Leaf:
        source = draw(st.sampled_from(["here", "here", "answered", "waits"]))
        return Leaf(number(), source, draw(st.sampled_from([False, False, True])), 0)

    def tree(most: int, depth: int) -> Tree:
        kind = draw(st.sampled_from(["all", "all", "then", "raise", "leaf"])) if depth else "leaf"
        if kind == "leaf":
            return leaf()
        own = number()
        if kind != "all":
            return Branch(own, kind, (tree(most, depth - 1),))
        children: list[Tree] = []
        for _ in range(draw(st.integers(0, 4))):
            left = most - sum(len(leaves(child)) for child in children)
            if left > 0:
                children.append(tree(left, depth - 1))
        return Branch(own, kind, tuple(children))

    grown = tree(6, 4)
    turns = draw(st.permutations(range(len(leaves(grown)))))
    return _turned(grown, dict(zip([leaf.number for leaf in leaves(grown)], turns, strict=True)))


def _turned(tree: Tree, turns: dict[int, int]) -> Tree:
    if isinstance(tree, Leaf):
        return replace(tree, turn=turns[tree.number])
    return replace(tree, children=tuple(_turned(child, turns) for child in tree.children))


def assert_as_the_model_says(world: World, tree: Tree) -> None:
    model, seen = states(tree), world.call("a", plays.grow, tree, "b")
    assert seen.done == [[state is not None for state in each] for each in model]
    for node, state, got in zip(nodes(tree), model[-1], seen.ends, strict=True):
        if isinstance(state, Value):
            assert got.value == state.value, node
            assert got.error == "", node
        else:
            assert isinstance(state, Error)
            assert got.value is None, node
            assert got.error == state.type, node
            assert state.text in got.text, node


@settings(
    max_examples=max(200, settings().max_examples),  # more where a profile asks for more
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(tree=trees())
def test_random_fan_in_is_what_the_model_says(world: World, tree: Tree) -> None:
    """Compare the complete futures after each completed leaf, and at the end the result of each."""
    assert_as_the_model_says(world, tree)


SOFT, HARD = Leaf(2, "here", True, 0), Leaf(3, "answered", True, 1)


@pytest.mark.parametrize(
    "wrong", [(replace(SOFT, source="answered"), HARD), (SOFT, replace(HARD, source="here"))], ids=["hard", "soft"]
)
def test_another_trees_model_does_not_fit(
    world: World, wrong: tuple[Leaf, Leaf], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = states(Branch(1, "all", wrong))
    monkeypatch.setattr("tests.torch.test_future_chains.states", lambda tree: other)
    with pytest.raises(AssertionError):
        assert_as_the_model_says(world, Branch(1, "all", (SOFT, HARD)))
