"""Roles of a tutorial: which function each named process runs, and which RPC options it needs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any


def serve() -> None:
    """Run on a role that only answers calls: returns at once, because RPC goes on until the common shutdown."""


def numbered(kind: str, count: int) -> list[str]:
    """Names of ``count`` roles of one kind in rank order: trainer1, trainer2, …"""
    return [f"{kind}{index}" for index in range(1, count + 1)]


class Roles(dict[str, Callable[[], object]]):
    """Role names, in rank order, with the function that each role runs; `world.launch` reads the options here.

    Args:
        roles: the roles that run something of their own.
        options: RPC options of every role.
        each: further RPC options, by the name of the role.
        serving: names of the roles that only answer calls; they come after ``roles``.
    """

    def __init__(
        self,
        roles: Mapping[str, Callable[[], object]],
        options: Mapping[str, Any] | None = None,
        each: Mapping[str, Mapping[str, Any]] | None = None,
        serving: Collection[str] = (),
    ) -> None:
        super().__init__({**roles, **dict.fromkeys(serving, serve)})
        self.options = options or {}
        self.each = each or {}
