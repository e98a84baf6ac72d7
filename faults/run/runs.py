"""Run a subject under a plan: launch it, wait for its end, write the record, judge the run."""

from __future__ import annotations

import builtins
import os
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from faults.ledger import record
from faults.ledger.ledger import read
from faults.ledger.record import End, Run
from faults.ledger.run_files import renewed
from faults.plan.plan import Plan
from faults.run.launch_scope import at_work, check_roles
from faults.run.left_over import leaks
from faults.run.orphans import adopting
from faults.run.subject import Subject
from faults.tracebacks.certainty import raised_there
from faults.tracebacks.error_chain import pieces_in
from faults.verdict.checks import Judgement, judge
from faults.verdict.time_bounds import bound_of_timeout, lasting, limit
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
) -> tuple[Run, Judgement]:
    """Run a subject once, and leave all files in ``folder``. ``recorded``: write ledgers even for an empty plan.

    ``deadline``: seconds until a role that still runs is killed; by default well beyond the bound. ``trace``: trace
    RRefs and autograd contexts, so that a leak is named with its holder; ``order``: record in which order calls
    execute, for `replay`; both need ledgers.

    Raises:
        WorldError, PlanError, NetworkError: the run cannot start.
    """
    check_roles(plan, list(subject.roles))
    with renewed(
        plan, folder, trace=trace, order=order
    ) as place:  # other runs stay out of the folder until this one is judged
        _launch_and_record(subject, plan, place, deadline=deadline, recorded=recorded)
        found = record.read(place)
        return found, judge(found)


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
        bound=bound,
        limit=limit(subject.timeout),
        seconds=seconds,
        trace=trace,
        difference=f"{difference}, wanted the twin's" if trace else "",
        leaks=[*leaks(timeline), *orphans],
        start=timeline.zero,
        recorded=recorded,
    )


def _end(outcome: Outcome, ended: float) -> End:
    bases = _bases(raised_there(outcome.message) or outcome.type) if isinstance(outcome, Raised) else ()
    causes = tuple(pieces_in(outcome.traceback)) if isinstance(outcome, Raised) else ()
    return End(type(outcome).__name__, str(outcome), ended, bases, causes)


def _bases(name: str) -> tuple[str, ...]:
    """Return the names of an exception's class and of its base classes, by the class's name in `Raised`."""
    module, _, last = name.rpartition(".")
    try:
        kind: Any = getattr(import_module(module) if module else builtins, last)
    except (ImportError, AttributeError):
        return (name,)
    return (name, *(each.__name__ for each in kind.__mro__[1:] if each is not object))
