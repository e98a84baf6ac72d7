"""Roles: serving ones, and each role's RPC options."""

from __future__ import annotations

import sys
from colorsys import rgb_to_hls
from functools import partial

from reference.roles import Roles, numbered, serve
from reference.world.rpc_agent import chosen_options


def test_serving_roles_come_last_and_return_at_once() -> None:
    roles = Roles({"first": serve, "ps": int}, serving=numbered("trainer", 2))
    assert list(roles) == ["first", "ps", "trainer1", "trainer2"]
    assert [roles[name]() for name in roles] == [None, 0, None, None]


def test_a_serving_role_imports_what_the_others_call() -> None:
    """Otherwise the first call would import them, and its timeout may be shorter than that takes."""
    roles = Roles({"a": partial(partial(rgb_to_hls, 1, 1), 1), "b": partial(int)}, serving=["c"])
    assert roles["c"].args == ("builtins", "colorsys")  # type: ignore[attr-defined]
    del sys.modules["colorsys"]
    roles["c"]()
    assert "colorsys" in sys.modules


def test_roles_have_the_options_of_all_and_their_own() -> None:
    roles = Roles({"a": int}, {"rpc_timeout": 7}, {"b": {"num_worker_threads": 1}}, serving=["b"])
    options = {name: chosen_options(roles, name, {}) for name in roles}
    assert {name: each["rpc_timeout"] for name, each in options.items()} == {"a": 7, "b": 7}
    assert ["num_worker_threads" in each for each in options.values()] == [False, True]
