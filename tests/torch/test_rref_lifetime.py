"""RRefs as values: their descriptions, copies, parameters, and refused uses; torch 2.13."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

import pytest
import torch.distributed.rpc as rpc

from reference.outcome import Returned
from reference.world import World
from tests.support import roles_rrefs as plays
from tests.support.idle import AT_ONCE, NOT_STARTED, idle, keeps

REFUSED = "Can not pickle rref in python pickler, rref can only be pickled when using RPC"
DELETED = r"has been deleted\. Cannot call to_here\(\) on it after deletion\."
NO_AGENT = "Current RPC agent is not set! Did you initialize the RPC framework (e.g. by calling `rpc.init_rpc`)?"
ID = r"GloballyUniqueId\(created_on={}, local_id=\d+\)"


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """``a`` has an RRef ``k`` to an object of ``b`` and one to its own, ``own``. No role dies."""
    with idle("abc", deadline=600) as started:
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


def test_a_users_rref_describes_itself(world: World) -> None:
    said = world.call("a", plays.identity, "k")
    rref, fork = ID.format(0), ID.format(0)
    assert re.fullmatch(rf"UserRRef\(RRefId = {rref}, ForkId = {fork}\)", said["repr"])
    assert said["is_owner"] is False
    assert said["owner"] == ("b", 1)
    assert said["owner_name"] == "b"
    assert said["confirmed"] is True
    local = said["local_value"]
    assert local.error == "RuntimeError"
    assert re.fullmatch(
        rf"For UserRRef\(rref_id={rref}, fork_id={fork}\), can't call localValue\(\) on user "
        r"WorkerInfo\(id=0, name=a\)\. Call it on owner WorkerInfo\(id=1, name=b\)",
        local.text,
    )


def test_an_owners_rref_describes_itself(world: World) -> None:
    said = world.call("a", plays.identity, "own")
    assert re.fullmatch(rf"OwnerRRef\({ID.format(0)}\)", said["repr"])
    assert said["is_owner"] is True
    assert said["owner"] == ("a", 0)
    assert said["owner_name"] == "a"
    assert said["confirmed"] is True
    assert said["local_value"].value == 2


def test_fetching_twice_is_two_copies_for_a_user_and_one_object_for_the_owner(world: World) -> None:
    assert world.call("a", plays.two_fetches, "k") == (False, False, 1, 1)
    world.call("a", plays.create_own, "other", plays.Node(2))
    assert world.call("a", plays.two_fetches, "other") == (True, True, 3, 3)


def test_a_change_is_made_through_the_proxy(world: World) -> None:
    """Each user has its own fork, and sees it."""
    world.call("a", plays.create, "changed", "b", 1)
    assert world.call("a", plays.pass_on, "changed", "c").error == ""
    assert world.call("c", plays.add_by_proxy, "changed", 4).value == 5
    assert world.call("a", plays.fetch, "changed").value == 5
    for role in "ac":
        world.call(role, plays.drop, "changed")


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


def test_a_parameter_stays_one_at_its_owner_only(world: World) -> None:
    seen = world.call("a", plays.owned_parameter, "b")
    assert seen["here"] is True
    assert seen["back"] is True
    assert seen["there"] == ("Tensor", True, True)


def test_gradients_reach_a_parameter_through_its_owners_method(world: World) -> None:
    """The method that returns the parameter itself hands out a copy: no gradient comes back, and no error
    (upstream issue 86525)."""
    assert world.call("a", plays.trained, "b") == {"proxy": [6.0, 6.0], "fetched": []}


def test_after_the_shutdown_rrefs_cannot_be_used() -> None:
    """An owner cannot even reach its own object any more; a new RRef is made all the same."""
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


def test_an_asynchronous_call_by_a_proxy_that_fails_keeps_the_rref_for_good() -> None:
    """Its error holds on to the frames through which it came, and torch's future to the error. That of `rpc_sync` does
    not; once it is given back, what is left at the owner is the other's."""
    with idle("ab") as world:
        assert world.call("a", plays.fail_by_proxy, "b", "rpc_async").error == "TypeError"
        assert world.call("a", plays.fail_by_proxy, "b", "rpc_sync").error == "TypeError"
        keeps(world, "b", 1, 1, 0)
