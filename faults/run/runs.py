"""Run a subject under a plan: launch it, wait for its end, write the record, judge the run."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from faults.judge.bound import bound_of_timeout, lasting
from faults.judge.rules import Judgement, judge
from faults.ledger import record
from faults.ledger.ledger import read
from faults.ledger.record import End, Run
from faults.ledger.run_files import renewed
from faults.plan.plan import Plan
from faults.run.launch_scope import at_work, check_roles
from faults.run.left_over import leaks
from faults.run.orphans import adopting
from faults.run.subject import Subject
from reference.outcome import Outcome, Raised
from reference.world.launcher import launch
from reference.world.start import LONGEST


def bound_of(subject: Subject) -> float:
    """Return the seconds within which all roles have to end after a fault."""
    return bound_of_timeout(subject.timeout)


def run(
    subject: Subject,
    plan: Plan,
    folder: str | os.PathLike[str],
    *,
    deadline: float | None = None,
    recorded: bool = False,
    trace: bool = False,
    order: bool = False,
    expected: Sequence[str] = (),
) -> tuple[Run, Judgement]:
    """Run a subject once, and leave all files in ``folder``. ``recorded``: write ledgers even for an empty plan.

    ``deadline``: seconds until a role that still runs is killed; by default well beyond the bound. ``trace``: trace
    RRefs and autograd contexts, so that a leak is named with its holder; ``order``: record in which order calls
    execute, for `replay`; both need ledgers. ``expected``: the types of which a failure has to be one, by their names.

    Raises:
        WorldError, PlanError, NetworkError: the run cannot start.
    """
    check_roles(plan, list(subject.roles))
    with renewed(
        plan, folder, trace=trace, order=order
    ) as place:  # other runs stay out of the folder until this one is judged
        _launch_and_record(subject, plan, place, deadline=deadline, recorded=recorded)
        found = record.read(place)
        return found, judge(found, expected=expected)


def _launch_and_record(subject: Subject, plan: Plan, place: Path, *, deadline: float | None, recorded: bool) -> None:
    """Launch the roles, wait until they end, and write the record."""
    bound = bound_of(subject)
    due = 60.0 + 2 * bound + lasting(plan) if deadline is None else deadline
    with at_work(plan, place, list(subject.roles), record=recorded) as arguments, adopting() as left:
        arguments["options"] = {**arguments.get("options", {}), "rpc_timeout": subject.timeout}
        arguments["grace"] = min(bound + lasting(plan), LONGEST)  # a role that ends within the bound has not hung
        begun = time.monotonic()
        with launch(subject.roles, deadline=due, folder=place, isolated=subject.isolated, **arguments) as world:
            outcomes, times = world.wait(), world.ended
        seconds, orphans = time.monotonic() - begun, left()
    ends = {role: _end(outcome, times[role]) for role, outcome in outcomes.items()}
    trace, difference = subject.judge(outcomes) or (None, "")
    timeline = read(place)
    record.write(
        place,
        name=subject.name,
        ends=ends,
        timeout=subject.timeout,
        seconds=seconds,
        trace=trace,
        difference=f"{difference}, wanted the twin's" if trace else "",
        leaks=[*leaks(timeline), *orphans],
        start=timeline.zero or begun,
        recorded=recorded,
    )


def _end(outcome: Outcome, ended: float) -> End:
    """Return the end that an outcome tells. A role that has a ledger has all classes of its error there."""
    types = (outcome.type.rpartition(".")[2],) if isinstance(outcome, Raised) else ()
    return End(type(outcome).__name__, str(outcome), ended, types)
