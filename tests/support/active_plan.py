"""A plan at work on idle roles of a world, for as long as a block, or for one call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from faults.plan import Plan
from faults.run.runs import prepared
from reference.world import World
from tests.support import roles_shop as shop


@contextmanager
def active(world: World, folder: Path, plan: str, roles: str = "ab") -> Iterator[None]:
    """Have the plan at work on these roles, whose names have one letter each."""
    place = prepared(Plan.parse(plan), folder)
    for role in roles:
        world.call(role, shop.activate, str(place), role)
    try:
        yield
    finally:
        for role in roles:
            world.call(role, shop.deactivate)


def played(world: World, folder: Path, plan: str, play: Callable[..., Any], *args: Any, roles: str = "ab") -> Any:
    """Return what ``play`` returns on role a under the plan."""
    with active(world, folder, plan, roles):
        return world.call("a", play, *args)
