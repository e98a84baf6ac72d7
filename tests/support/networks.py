"""Worlds on a network of their own, for tests, under a plan, and the events in their ledger."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from faults.inject.network import network
from faults.inject.network.network import Network
from faults.ledger import Event, ledger
from faults.plan import Plan
from reference.world import World, launch
from tests.support import required, roles_network, roles_plain

# What a fault of role b that fired once and ended has left in the ledgers.
ONCE = [("b", "planned", 0), ("b", "fired", 0), ("+network", "effective", 0), ("+network", "healed", 0)]


def require() -> None:
    """Skip if networks are not permitted, or fail (`required`)."""
    required.require(network.missing())


def require_netem() -> None:
    """Skip if the kernel has no netem, in CI as well: few kernels that are made for virtual machines have it."""
    lacking = network.missing_netem()
    if lacking:
        pytest.skip(lacking)


@contextmanager
def faulty_world(folder: Path, plan: str, roles: str = "abc") -> Iterator[World]:
    """Start idle roles on a network of their own, one per letter, under the plan. Receipts exist after the block."""
    folder.mkdir(exist_ok=True)
    (folder / "plan.json").write_text(Plan.parse(plan).to_json())
    names, before = list(roles), partial(roles_network.enter_network, folder)
    with Network(names, folder) as made, launch(names, before=before, options=made.options) as world:
        for role in roles:
            world.call(role, roles_plain.name)  # RPC is up
        yield world


def events(folder: Path, *kinds: str) -> list[Event]:
    return ledger.read(folder).of(*kinds)


def told(folder: Path, *kinds: str) -> list[tuple[str, str, int]]:
    """Return (role, event, number of the fault) in the order of time."""
    wanted = kinds or ("planned", "fired", "effective", "healed")
    return [(each.role, each.event, each.details["fault"]) for each in events(folder, *wanted)]
