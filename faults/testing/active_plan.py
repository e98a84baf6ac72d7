"""Put the plan of one test into one world, and say afterwards which of its faults did not fire."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faults import hook
from faults.inject.call.delivery import LONG
from faults.judge.facts import Facts
from faults.judge.proof import firings, unended, unseen
from faults.ledger.ledger import Timeline, read
from faults.ledger.record import Run
from faults.plan.plan import PlanError
from faults.run.runs import check_roles, prepared, scope

if TYPE_CHECKING:  # it imports pytest, and roles import this module
    from faults.testing.plan_marks import Wanted

UNUSED = (
    "no role has started RPC under the plan: wanted the fixture world (as an argument or by usefixtures), fresh_world, "
    "plan.activate(world), or launch(roles, **plan.arguments(roles))"
)


class ActivePlan:
    """The value of the fixture ``plan``. ``folder``: the run's folder; ``asked``: what the test and the options say."""

    def __init__(self, asked: Wanted, folder: Path) -> None:
        self.asked, self.plan, self.folder, self.imposed = asked, asked.plan, folder, asked.imposed
        self._why = ""  # why an imposed plan could not be put into a world
        self._stack = ExitStack()
        self._used = False

    def __str__(self) -> str:
        return str(self.plan)

    def arguments(self, roles: Collection[str] = ()) -> dict[str, Any]:
        """Return the arguments for ``launch(roles, **arguments)``, once. A network stays until the test's end.

        Raises:
            PlanError: the plan is in use already, or `check_roles` refuses it.
            NetworkError: the plan has faults of a network, and this machine cannot make them.
        """
        if roles:
            check_roles(self.plan, roles)
        self._use()
        return self._stack.enter_context(scope(self.plan, self.folder, roles, record=True))

    def activate(self, world: Any) -> None:
        """Put the plan to work in an idle world, until the test's end. The calls from now on count from 1.

        Raises:
            PlanError: the plan is in use already; or it names a role that this world does not have; or it has faults of
                messages or networks, which have to be there when RPC starts.
        """
        check_roles(self.plan, list(world.pids))
        late = [place for place in ("message", "network") if self.plan.at(place)]
        if late:
            raise PlanError(f"faults of a {late[0]} have to be there when RPC starts: wanted a fresh world, got idle")
        self._use()
        prepared(self.plan, self.folder)
        self._stack.callback(_deactivate, world)
        for role in world.pids:
            world.call(role, hook.activate, str(self.folder), role)

    def begin(self, world: Any) -> None:
        """`activate` the plan. If it is imposed and does not suit this world, the test runs without it."""
        with self._excused():
            self.activate(world)

    def offered(self, roles: Collection[str]) -> dict[str, Any]:
        """Return `arguments` for a fresh world; none if an imposed plan does not suit it, or is in use already."""
        if self.imposed and self._used:
            return {}
        with self._excused():
            return self.arguments(roles)
        return {}

    @contextmanager
    def _excused(self) -> Iterator[None]:
        """Excuse an imposed plan that does not suit the world. Raises PlanError for any other plan."""
        try:
            yield
        except PlanError as error:
            if not self.imposed:
                raise
            self._why = str(error)

    def timeline(self) -> Timeline:
        """Read the events so far."""
        return read(self.folder)

    def worked(self) -> bool:
        """Whether the plan was put to work: a role has opened its ledger."""
        return self._used and bool(self.timeline().roles)

    def settle(self) -> None:
        """Wait, at most as long as a role does before its shutdown, for calls that a `Duplicate` has begun again."""
        due = time.monotonic() + LONG
        while unended(self.run()) and time.monotonic() < due:
            time.sleep(0.02)  # nothing tells of a new line in a ledger

    def not_fired(self) -> str:
        """Name the faults that have not fired, or not as often as the plan says; empty if all have."""
        holds, text = Facts(self.run()).fired
        return "" if holds or (holds is None and all(self._vouched().values())) else text

    def account(self) -> dict[str, Any]:
        """Return plain data for the tally of the whole run."""
        fired = {event.details["fault"] for event in firings(self.run())}
        silent = self._vouched()
        fired |= {number for number in self.plan.at("message") if silent.get(number, True)}
        return {"worked": self.worked(), "fired": sorted(fired), "why": self._why}

    def _vouched(self) -> dict[int, bool]:
        """Tell for each message fault without evidence whether the test itself proves it, because no call can."""
        found = unseen(self.plan, self.timeline())
        return {number: self.asked.unseen and silent for number, silent in found.items()}

    def run(self) -> Run:
        """Read the run so far, of which nobody has recorded an end."""
        return Run(name="", plan=self.plan, timeline=self.timeline())

    def close(self) -> None:
        """Heal the network, and undo `activate`."""
        self._stack.close()

    def _use(self) -> None:
        if self._used:
            raise PlanError("this test's plan is in use already: wanted one world under it, others without")
        self._used = True


def _deactivate(world: Any) -> None:
    """Deactivate the plan on all idle roles that have not ended."""
    world.run({role: hook.deactivate for role in world.pids if role not in world.outcomes}, deadline=10)


def call_both(first: Callable[[str], object], second: Callable[[str], object], role: str) -> None:
    """Join two ``before`` functions into one."""
    first(role)
    second(role)


def merge_launch_arguments(own: dict[str, Any], plan: dict[str, Any]) -> dict[str, Any]:
    """Merge a test's own arguments for `launch` with those of a plan."""
    found = {**own, **plan}
    if own.get("before") is not None and plan.get("before") is not None:
        found["before"] = partial(call_both, own["before"], plan["before"])
    if own.get("options") or plan.get("options"):
        found["options"] = {**(own.get("options") or {}), **plan.get("options", {})}
    if "grace" in own and "grace" in plan:
        found["grace"] = max(own["grace"], plan["grace"])
    return found
