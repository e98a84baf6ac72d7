"""A plan in a test: put into one world, and asked afterwards whether all of it happened."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from faults import hook
from faults.ledger.ledger import Timeline, read
from faults.ledger.record import Run
from faults.plan.plan import Plan, PlanError
from faults.run.launch_scope import check_roles, prepared, scope
from faults.verdict import proof
from faults.verdict.message_evidence import unseen

UNUSED = (
    "the plan was never put to work: wanted the fixture world, named as an argument or by usefixtures, or fresh_world, "
    "plan.activate(world), "
    "or launch(roles, **plan.arguments(roles))"
)


class ActivePlan:
    """What the fixture ``plan`` gives. ``folder``: the run's. ``unseen``: the test answers for messages of which
    no call can tell.

    ``guest``: the test did not ask for it, so it may find no world, and its faults no occasion.
    """

    def __init__(self, plan: Plan, folder: Path, *, unseen: bool = False, guest: bool = False) -> None:
        self.plan, self.folder, self.guest = plan, folder, guest
        self._unseen = unseen
        self._why = ""  # a guest could not be put into a world
        self._stack = ExitStack()
        self._used = False

    def __str__(self) -> str:
        return str(self.plan)

    def arguments(self, roles: Sequence[str] = ()) -> dict[str, Any]:
        """For ``launch(roles, **arguments)``, once; a network is there until the test's end.

        Raises:
            PlanError: the plan is in use already, or it names somebody who is none of ``roles``.
            NetworkError: a network's faults cannot be made here.
        """
        if roles:
            check_roles(self.plan, roles)
        self._use()
        return self._stack.enter_context(scope(self.plan, self.folder, roles, record=True))

    def activate(self, world: Any) -> None:
        """Put the plan to work in an idle world, until the test's end; the calls that follow count from 1.

        Raises:
            PlanError: in use already, it names somebody who is no role of this world, or it has faults of messages or
                networks, which have to be there from the start.
        """
        check_roles(self.plan, list(world.pids))
        late = [place for place in ("message", "network") if self.plan.at(place)]
        if late:
            raise PlanError(f"faults of a {late[0]} have to be there when RPC starts: wanted a fresh world, got idle")
        self._use()
        prepared(self.plan, self.folder)
        self._stack.callback(_everywhere, world, _deactivate)
        for role in world.pids:
            world.call(role, _activate, str(self.folder), role)

    def begin(self, world: Any) -> None:
        """`activate`, but that a guest whom this world does not suit goes on without."""
        with self._excused():
            self.activate(world)

    def offered(self, roles: Sequence[str]) -> dict[str, Any]:
        """`arguments` for a fresh world; none for a guest whom it does not suit, or who has had one."""
        if self.guest and self._used:
            return {}
        with self._excused():
            return self.arguments(roles)
        return {}

    @contextmanager
    def _excused(self) -> Iterator[None]:
        """Nobody has asked a guest whether its plan suits the world. Raises PlanError, but for a guest."""
        try:
            yield
        except PlanError as error:
            if not self.guest:
                raise
            self._why = str(error)

    def timeline(self) -> Timeline:
        """What has happened so far."""
        return read(self.folder)

    def worked(self) -> bool:
        """Whether it was put to work: a role has opened its ledger."""
        return self._used and bool(self.timeline().roles)

    def not_fired(self) -> str:
        """Which faults have not fired, or not as often as the plan says; empty if all have."""
        holds, text = proof.fired(self._run())
        return "" if holds or (holds is None and all(self._vouched().values())) else text

    def account(self) -> dict[str, Any]:
        """For the tally of the whole run, as plain data."""
        fired = {event.details["fault"] for event in proof.firings(self._run())}
        silent = self._vouched()
        fired |= {number for number in self.plan.at("message") if silent.get(number, True)}
        return {"worked": self.worked(), "fired": sorted(fired), "why": self._why}

    def _vouched(self) -> dict[int, bool]:
        """For each message fault without evidence whether the test answers for it: only where there can be none."""
        found = unseen(self.plan, self.timeline())
        return {number: self._unseen and silent for number, silent in found.items()}

    def _run(self) -> Run:
        return Run(name="", plan=self.plan, timeline=self.timeline())

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


def call_both(first: Callable[[str], object], second: Callable[[str], object], role: str) -> None:
    """One ``before`` for two."""
    first(role)
    second(role)


def merge_launch_arguments(own: dict[str, Any], plan: dict[str, Any]) -> dict[str, Any]:
    """Arguments for `launch`: a test's own, and a plan's."""
    found = {**own, **plan}
    if own.get("before") is not None and plan.get("before") is not None:
        found["before"] = partial(call_both, own["before"], plan["before"])
    if own.get("options") or plan.get("options"):
        found["options"] = {**(own.get("options") or {}), **plan.get("options", {})}
    if "grace" in own and "grace" in plan:
        found["grace"] = max(own["grace"], plan["grace"])
    return found
