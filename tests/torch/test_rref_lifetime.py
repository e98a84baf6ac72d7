"""RRefs as values: made late, copied, compared, used for a parameter, and after the shutdown; torch 2.13."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

import pytest
import torch.distributed.rpc as rpc

from reference.outcome import Returned
from reference.world import World
from tests.support import roles_rrefs as plays
from tests.support.idle import AT_ONCE, LATE, NOT_STARTED, idle, keeps

REFUSED = "Can not pickle rref in python pickler, rref can only be pickled when using RPC"
DELETED = r"has been deleted\. Cannot call to_here\(\) on it after deletion\."
NOT_MADE = (
    "RRef creation via rpc.remote() timed out, and it is possible that the RRef on the owner node does not exist."
)
NO_AGENT = "Current RPC agent is not set! Did you initialize the RPC framework (e.g. by calling `rpc.init_rpc`)?"


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """``a`` has an RRef ``k`` to an object of ``b`` and one to its own, ``own``. No role dies."""
    with idle("ab", deadline=600) as started:
        started.call("a", plays.create, "k", "b", 1)
        started.call("a", plays.create_own, "own", plays.Node(2))
        yield started


@pytest.mark.parametrize("key", ["k", "own"])
@pytest.mark.parametrize("way", ["pickle", "copy", "deepcopy", "torch.save"])
def test_pickling_outside_rpc_is_refused(world: World, way: str, key: str) -> None:
    refused = world.call("a", plays.pickled, way, key)
    assert refused.error == "RuntimeError"
    assert refused.text == REFUSED
    assert world.call("a", plays.fetch, key).error == ""


def test_equality_is_of_the_handle_and_not_of_the_object(world: World) -> None:
    """A second fork in the same process is another RRef, even at the owner, where it has the same object."""
    user = world.call("a", plays.there_and_back, "k", "b")
    assert user == {
        "is": False,
        "equal": False,
        "to itself": True,
        "same owner": True,
        "same object": False,
        "same repr": False,
        "same value": True,
    }
    owner = world.call("a", plays.there_and_back, "own", "b")
    assert owner == {**user, "same object": True, "same repr": True}


def test_gradients_reach_a_parameter_through_its_owners_method(world: World) -> None:
    """The method that returns the parameter itself hands out a copy: no gradient comes back, and no error."""
    assert world.call("a", plays.trained, "b") == {"proxy": [6.0, 6.0], "fetched": []}


def test_after_the_shutdown_rrefs_cannot_be_used() -> None:
    """Erratum S1.16: an owner cannot even reach its own object any more. A new RRef is made all the same."""
    with idle("ab") as world:
        outcomes = world.run({"a": partial(plays.use_after_shutdown, "b"), "b": rpc.shutdown})
    assert isinstance(outcomes["a"], Returned)
    seen = outcomes["a"].value
    assert isinstance(seen, dict)
    assert all(each.seconds < AT_ONCE for each in seen.values())
    fetched = seen.pop("to_here")
    assert re.fullmatch(rf"UserRRef\(.*\) {DELETED}", fetched.text)
    assert {use: each.value if not each.error else (each.error, each.text) for use, each in seen.items()} == {
        "proxy": ("RuntimeError", NO_AGENT),
        "repr": "UserRRef(",
        "is_owner": False,
        "owner_name": ("RuntimeError", NO_AGENT),
        "own local_value": ("RuntimeError", NO_AGENT),
        "own to_here": ("RuntimeError", NO_AGENT),
        "new": "OwnerRRef(",
        "remote": ("RuntimeError", NOT_STARTED),
    }


def test_an_rref_may_be_made_after_its_callers_timeout() -> None:
    """The caller never gets it, and the owner keeps it. Dropping it here might end the process."""
    with idle() as world:
        assert world.call("a", plays.create_with, "k", "b", plays.make_late, 5, 0.3).error == ""
        assert world.call("b", plays.await_entered)
        assert world.call("a", plays.created, "k").text.startswith(LATE)
        assert world.call("a", plays.fetch, "k").text == NOT_MADE
        assert world.call("b", plays.executed) == []
        keeps(world, "a", 0, 0, 0)
        world.call("b", plays.let_go)
        keeps(world, "b", 1, 1, 0)
        assert world.call("a", plays.fetch, "k").text == NOT_MADE
        assert world.call("b", plays.executed) == ["make"]
        keeps(world, "b", 1, 1, 0)
