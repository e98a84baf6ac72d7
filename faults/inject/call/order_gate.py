"""Execute calls of several roles one after the other in a given order, whenever they arrive."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from faults.plan.plan import Fault


class OutOfTurn(RuntimeError, TimeoutError):
    """The calls that were planned before this one did not execute in time."""


@dataclass
class Group:
    """The calls of one occurrence. ``roles``: the callers; ``arrived``: the same in the order of arrival; ``done``: the
    number of executed calls."""

    roles: Sequence[str]
    arrived: list[str] = field(default_factory=list)
    done: int = 0


class OrderGate:
    """Hold calls back in the callee's process until it is their turn.

    A waiting call keeps its RPC thread, because in another thread it would lose its autograd context.
    ``groups``: the calls that have arrived, by their fault and its occurrence; ``changed`` is notified of any.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.groups: dict[tuple[int, int], Group] = {}

    @contextmanager
    def turn(self, number: int, fault: Fault, nth: int, caller: str) -> Iterator[Group]:
        """Wait until it is the turn of the ``nth`` call of ``caller``, which executes within the block.

        Raises:
            OutOfTurn: the calls before it did not execute within ``fault.seconds``.
        """
        roles = fault.roles or ()
        position, due = roles.index(caller), time.monotonic() + (fault.seconds or 0)
        with self.changed:
            group = self.groups.setdefault((number, nth), Group(roles))
            group.arrived.append(caller)
            self.changed.notify_all()
            if not self.changed.wait_for(lambda: group.done >= position, due - time.monotonic()):
                late = ", ".join(roles[group.done : position])
                raise OutOfTurn(f"Order: nothing from {late} within {fault.seconds} s, wanted before {caller}")
        executed = 1
        try:
            yield group
        except OutOfTurn:  # by another fault, so it does not execute
            executed = 0
            raise
        finally:
            with self.changed:
                group.done += executed
                if group.done == len(roles):
                    del self.groups[number, nth]
                self.changed.notify_all()
