"""Roles of a tutorial: which function each named process runs, and which RPC options it needs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from importlib import import_module
from typing import Any


def serve(*modules: str) -> None:
    """Run on a role that only answers calls: RPC goes on answering until the common shutdown.

    Imports ``modules`` now. Otherwise the first call of one of their functions would wait for the import, within the
    call's own timeout.
    """
    for name in modules:
        import_module(name)


def numbered(kind: str, count: int) -> list[str]:
    """Name ``count`` roles of one kind, in rank order: trainer1, trainer2, …"""
    return [f"{kind}{index}" for index in range(1, count + 1)]


class Roles(dict[str, Callable[[], object]]):
    """Role names, in rank order, with the function that each role runs; `world.launch` reads the options here.

    Args:
        roles: what each role runs, in rank order; `serve` for one that only answers calls of the others' functions.
        options: RPC options of every role.
        each: further RPC options, by the name of the role.
        serving: names of further roles that run `serve`; they come after ``roles``.
    """

    def __init__(
        self,
        roles: Mapping[str, Callable[[], object]],
        options: Mapping[str, Any] | None = None,
        each: Mapping[str, Mapping[str, Any]] | None = None,
        serving: Collection[str] = (),
    ) -> None:
        everything = {**roles, **dict.fromkeys(serving, serve)}
        modules = sorted({_module_of(function) for function in everything.values() if function is not serve})
        answering = partial(serve, *modules)
        super().__init__({name: answering if function is serve else function for name, function in everything.items()})
        self.options = options or {}
        self.each = each or {}


def _module_of(function: Callable[[], object]) -> str:
    """The module that defines a role's function, or the function that a `functools.partial` calls."""
    while isinstance(function, partial):
        function = function.func
    return function.__module__
