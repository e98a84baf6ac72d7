"""Run a subject under a plan: launch it, wait for its end, write the record, judge the run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from faults import hook
from faults.inject.network import network
from faults.judge.bound import bound_of_timeout, lasting
from faults.judge.facts import GONE
from faults.judge.rules import Judgement
from faults.judge.rules import judge as judge_run
from faults.ledger import record
from faults.ledger.ledger import read
from faults.ledger.record import End, Run
from faults.ledger.run_files import CHECKPOINTS, renewed
from faults.plan.plan import Plan, PlanError
from faults.run.leftovers import adopting, leaks
from reference.outcome import Outcome, Raised, is_ended_with_another
from reference.world import start
from reference.world.launcher import launch
from reference.world.rpc_agent import chosen_options
from reference.world.start import LONGEST
from reference.world.supervisor import GRACE

start.also_preloaded.append(hook.__name__)  # `scope` makes every role import it


@contextmanager
def scope(
    plan: Plan,
    folder: str | os.PathLike[str],
    roles: Collection[str] = (),
    *,
    record: bool = False,
) -> Iterator[dict[str, Any]]:
    """Yield keyword arguments for ``launch(roles, **arguments)`` that put ``plan`` to work in that world.

    ``folder`` gets the plan and every role's ledger; files of an earlier run are removed. If the scope ends by an error
    before any role has begun, the folder is left as it was. A plan with faults of a network needs ``roles``; leaving
    the scope heals and removes that network. ``record``: write ledgers even for an empty plan.

    Raises:
        PlanError: `renewed` refuses the folder, or `check_roles` the plan.
        NetworkError: the plan has faults of a network, and this machine cannot make them.
        OSError: the folder cannot be made or written.
    """
    if roles:
        check_roles(plan, roles)
    with (
        renewed(plan, folder) as place,
        at_work(plan, place, roles, record=record) as arguments,
    ):
        yield arguments


@contextmanager
def at_work(plan: Plan, place: Path, roles: Collection[str], *, record: bool) -> Iterator[dict[str, Any]]:
    """Yield the arguments of `scope` for a folder that has its plan already. Raises NetworkError."""
    with ExitStack() as stack:
        arguments: dict[str, Any] = {"before": partial(hook.install, place, record=record)}
        if lasting(plan):  # a role that a `Pause` stopped goes on later, so the launcher has to wait longer for it
            arguments["grace"] = min(GRACE + lasting(plan), LONGEST)
        if plan.at("network"):
            stack.enter_context(network.Network(list(roles), place, plan))
            arguments["options"] = network.Network.options
        yield arguments


def check_roles(plan: Plan, roles: Collection[str]) -> None:
    """Refuse a plan that names a role which is not in ``roles``: its fault could never fire. Refuse faults of networks
    and messages if `Roles` have device maps: these need channels for CUDA, which such faults take away.

    Raises:
        PlanError: the plan names such a role, or has such a fault.
        WorldError: `Roles` have an RPC option that is unknown.
    """
    mapped = [name for name in roles if chosen_options(roles, name, None).get("device_maps")]
    for fault in plan.faults:
        named = [fault.role, fault.to, fault.peer, *(fault.roles or ()), fault.moment.role if fault.moment else None]
        strange = [name for name in named if name is not None and name not in roles]
        if strange:
            raise PlanError(f"{fault}: no role {strange[0]}; wanted some of {', '.join(roles)}")
        if mapped and fault.place in ("network", "message"):
            raise PlanError(f"{fault}: {mapped[0]} has device maps, wanted roles without")


def prepared(plan: Plan, folder: str | os.PathLike[str]) -> Path:
    """Write the plan into the run's folder, and remove the files of an earlier run. The errors are those of
    `renewed`."""
    with renewed(plan, folder) as place:
        return place


Functions = Mapping[str, Callable[..., object]]


def _no_trace(outcomes: Mapping[str, Outcome]) -> None:
    """Compare nothing."""


class Compared(NamedTuple):
    """What came of a comparison: 'equal', 'wrong' or 'unknown'; the difference in words; the losses of `Run`."""

    verdict: str
    difference: str
    losses: Mapping[str, Sequence[float]] = {}


@dataclass(frozen=True)
class Subject:
    """The roles of a program, and how to judge their trace.

    ``judge``: compares the outcomes; None if there is no trace. It and the roles can be sent to another process.
    ``timeout``: seconds after which its roles give up a wait. ``isolated``: the argument of `launch`; its roles need no
    other network. ``checkpoints``: makes that argument of `launch` for a folder.
    """

    name: str
    roles: Functions
    timeout: float
    judge: Callable[[Mapping[str, Outcome]], Compared | tuple[str, str] | None] = _no_trace
    isolated: bool = False
    checkpoints: Callable[[Path], Any] | None = None


def run(
    subject: Subject,
    plan: Plan,
    folder: str | os.PathLike[str],
    *,
    deadline: float | None = None,
    recorded: bool = False,
    trace: bool = False,
    expected: Sequence[str] = (),
    restarts: int = 0,
) -> tuple[Run, Judgement]:
    """Run a subject once, and leave all files in ``folder``. ``recorded``: write ledgers even for an empty plan.
    ``restarts``: how often a lost world is started again from its last checkpoint.

    ``deadline``: seconds until a role that still runs is killed; by default well beyond the bound. ``trace``: trace
    RRefs and autograd contexts, so that a leak is named with its holder, which needs ledgers. ``expected``: the types
    of which a failure has to be one, by their names.

    Raises:
        WorldError, PlanError, NetworkError: the run cannot start.
    """
    check_roles(plan, subject.roles)
    with renewed(plan, folder, trace=trace) as place:  # other runs stay out of the folder until this one is judged
        _launch_and_record(subject, plan, place, deadline=deadline, recorded=recorded, restarts=restarts)
        found = record.read(place)
        return found, judge_run(found, expected=expected)


def _launch_and_record(
    subject: Subject, plan: Plan, place: Path, *, deadline: float | None, recorded: bool, restarts: int
) -> None:
    """Launch the roles, wait until they end, and write the record."""
    bound = bound_of_timeout(subject.timeout)
    due = min(60.0 + 2 * bound + lasting(plan), LONGEST) if deadline is None else deadline
    begun = time.monotonic()
    with at_work(plan, place, subject.roles, record=recorded) as arguments, adopting() as left:
        arguments["options"] = {**arguments.get("options", {}), "rpc_timeout": subject.timeout}
        if restarts and subject.checkpoints is not None:
            arguments |= {"checkpoints": subject.checkpoints(place / CHECKPOINTS), "restarts": restarts}
        arguments["grace"] = min(bound + lasting(plan), LONGEST)  # a role that ends within the bound has not hung
        with launch(subject.roles, deadline=due, folder=place, isolated=subject.isolated, **arguments) as world:
            outcomes, times, lost = world.wait(), world.ended, world.lost
        seconds, orphans = time.monotonic() - begun, left()
    ends = {role: _end(outcome, times[role]) for role, outcome in outcomes.items()}
    earlier = [replace(_end(each.outcome, each.ended), process=each.pid) for each in lost]
    found = subject.judge(outcomes)
    trace, difference, losses = Compared(*found) if found else (None, "", {})
    timeline = read(place)
    record.write(
        place,
        name=subject.name,
        ends=ends,
        lost=earlier,
        timeout=subject.timeout,
        seconds=seconds,
        trace=trace,
        difference=f"{difference}, wanted the twin's" if trace else "",
        losses=losses,
        leaks=[*leaks(timeline), *orphans],
        start=begun,
        recorded=recorded,
    )


def _end(outcome: Outcome, ended: float) -> End:
    """Return the end that an outcome tells. A role that has a ledger has all classes of its error there."""
    types = (outcome.types or (outcome.type.rpartition(".")[2],)) if isinstance(outcome, Raised) else ()
    return End(GONE if is_ended_with_another(outcome) else type(outcome).__name__, str(outcome), ended, types)
