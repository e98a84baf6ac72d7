"""Worlds of idle roles, for tests: up before anything happens, killed by signals, and what their roles returned."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from reference.outcome import Outcome, Overdue, Returned
from reference.world import World, launch
from tests.support import roles_plain
from tests.support.processes import left_after
from tests.support.roles_rrefs import counts

# How the error of a dead peer begins; the moment decides which of these it is.
GONE = ("EPIPE: broken pipe (", "EOF: end of file (", "ECONNRESET: connection reset by peer (", "pipe closed (")
LATE = "RPCErr:1:RPC ran for more than set timeout ("
NOT_STARTED = "RPC has not been initialized. Call torch.distributed.rpc.init_rpc first."
# RPC counts its timeouts in whole milliseconds, rounded down: one may end earlier by so much (seconds).
EARLY = 0.001
# Seconds within which something happens at once, even on a busy machine; RPC's own limit would be 60.
AT_ONCE = 2.0


@contextmanager
def idle(names: str = "abc", deadline: float = 60, options: Mapping[str, Any] | None = None) -> Iterator[World]:
    """Start idle roles, one per letter, whose RPC is up."""
    with launch(list(names), options=options, deadline=deadline) as world:
        for name in names:
            world.call(name, roles_plain.nothing)
        yield world


def kill(world: World, role: str) -> None:
    """Kill a role, and wait for its end."""
    os.kill(world.pids[role], signal.SIGKILL)
    assert left_after({world.pids[role]}, 10) == set()


def of(outcomes: Mapping[str, Outcome], role: str) -> Any:
    """Return what a role returned for one piece of work."""
    outcome = outcomes[role]
    assert isinstance(outcome, Returned), outcome
    return outcome.value


def overdue_in(outcome: Outcome, function: str) -> bool:
    return isinstance(outcome, Overdue) and f"in {function}\n" in outcome.stacks


def keeps(world: World, role: str, *wanted: int) -> None:
    """Ask without a pause until ``role`` keeps so many (owner RRefs, forks, own pending ones), at most 10 s."""
    due, found = time.monotonic() + 10, world.call(role, counts)
    while found != wanted and time.monotonic() < due:
        found = world.call(role, counts)
    assert found == wanted, f"{role} keeps {found} after 10 s, wanted {wanted}"
