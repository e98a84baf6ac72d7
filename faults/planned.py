"""A plan in a test: put into one world, and asked afterwards whether all of it happened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from faults import hook, proof
from faults.ledger import Timeline, read
from faults.plan import Plan, PlanError
from faults.record import Run
from faults.scope import prepared, scope


class Planned:
    """What the fixture ``plan`` gives. ``folder``: the run's. ``unseen``: faults of messages may leave no evidence."""

    def __init__(self, plan: Plan, folder: Path, *, unseen: bool = False) -> None:
        self.plan, self.folder = plan, folder
        self._unseen = unseen
        self._stack = ExitStack()
        self._used = False

    def __str__(self) -> str:
        return str(self.plan)

    def arguments(self, roles: Sequence[str] = ()) -> dict[str, Any]:
        """For ``launch(roles, **arguments)``, once; a network is there until the test's end.

        Raises:
            PlanError: the plan is in use already.
            NetworkError: a network's faults cannot be made here.
        """
        self._use()
        return self._stack.enter_context(scope(self.plan, self.folder, roles, record=True))

    def activate(self, world: Any) -> None:
        """Put the plan to work in an idle world, until the test's end; the calls that follow count from 1.

        Raises:
            PlanError: in use already, or it has faults of messages or networks, which have to be there from the start.
        """
        self._use()
        late = [place for place in ("message", "network") if self.plan.at(place)]
        if late:
            raise PlanError(f"faults of a {late[0]} have to be there when RPC starts: wanted a fresh world, got idle")
        prepared(self.plan, self.folder)
        self._stack.callback(_everywhere, world, _deactivate)
        for role in world.pids:
            world.call(role, _activate, str(self.folder), role)

    def timeline(self) -> Timeline:
        """What has happened so far."""
        return read(self.folder)

    def not_fired(self) -> str:
        """Which faults have not fired, or not as often as the plan says; empty if all have."""
        run = Run(name="", plan=self.plan, timeline=self.timeline())
        holds, text = proof.fired(run)
        return "" if holds or (holds is None and self._unseen) else text

    def close(self) -> None:
        """Heal, and undo `activate`."""
        self._stack.close()

    def _use(self) -> None:
        if self._used:
            raise PlanError("this test's plan is in use already: wanted one world under it, others without")
        self._used = True


def _activate(folder: str, role: str) -> None:
    """Runs on an idle role."""
    hook.activate(folder, role)


def _deactivate() -> None:
    hook.deactivate()


def _everywhere(world: Any, function: Callable[[], object]) -> None:
    """On all roles that are still there."""
    world.run({role: function for role in world.pids if role not in world.outcomes}, deadline=10)


def both(first: Callable[[str], object], second: Callable[[str], object], role: str) -> None:
    """One ``before`` for two."""
    first(role)
    second(role)


def together(own: dict[str, Any], plan: dict[str, Any]) -> dict[str, Any]:
    """Arguments for `launch`: a test's own, and a plan's."""
    found = {**own, **plan}
    if own.get("before") is not None:
        found["before"] = partial(both, own["before"], plan["before"])
    if own.get("options") or plan.get("options"):
        found["options"] = {**(own.get("options") or {}), **plan.get("options", {})}
    return found
