"""Run a user's own RPC program under a plan, unchanged: any command whose processes are Python's.

The command gets FAULTS_RUN, which `autostart` reads in each of its processes, and ``startup`` on PYTHONPATH, in case
the package is not installed. A role is a name that the program gives to `rpc.init_rpc`.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO

from faults.judge.bound import allowed
from faults.judge.proof import first_effects
from faults.judge.rules import Judgement, judge
from faults.ledger import record
from faults.ledger.ledger import read
from faults.ledger.record import COMMAND, Run
from faults.ledger.run_files import renewed
from faults.plan.plan import Plan, PlanError
from faults.run.left_over import leaks
from faults.script.execution import execute
from faults.script.results import Results

# Seconds until a command is killed. If its bound is later, it is killed `LATER` seconds after its bound.
DEADLINE, LATER = 300.0, 30.0


def run_script(
    command: Sequence[str],
    plan: Plan,
    folder: str | os.PathLike[str],
    *,
    deadline: float | None = None,
    bound: float | None = None,
    patience: float = DEADLINE,
    results: Results | None = None,
    trace: bool = False,
    order: bool = False,
    expected: Sequence[str] = (),
) -> tuple[Run, Judgement]:
    """Run ``command`` under ``plan``. It prints to this process's output, or into files beside its ``results``.

    ``bound``: seconds within which who fails has to end after the last fault before that; by default computed from the
    program's own timeouts. ``deadline``: seconds until the command is killed; by default ``patience``, or more if the
    bound is later.
    ``results``: how to check the results of a command that returned.
    ``trace``: trace RRefs and autograd contexts, so that a leak is named with its holder.
    ``order``: record in which order calls execute, for `replay`.
    ``expected``: the types of which a failure has to be one, by their names.

    Raises:
        PlanError: the plan has faults of a network, which need roles started by `world.launch`.
        StaleResult: a result is there before the run.
        CheckMissing: a check cannot be started.
        OSError: the command cannot be started.
    """
    if plan.at("network"):
        raise PlanError("faults of a network need roles that are started by reference.world.launch, got a script")
    # Other runs stay out of the folder until this one is judged.
    with renewed(plan, folder, trace=trace, order=order) as place:
        begun = time.monotonic()
        later = partial(_deadline, place, plan, bound, begun, patience)
        survivors = partial(_survivors, place, plan, bound)
        with _printing(results, place) as streams:
            ended = execute(command, place, streams, deadline or patience, lambda: deadline or later(), survivors)
        seconds = time.monotonic() - begun
        trace_, difference = (results.end(place, ended.end.returned) if results else None) or (None, "")
        record.write(
            place,
            name=shlex.join(command),
            ends={COMMAND: ended.end},
            statuses=ended.statuses,
            gone=ended.gone,
            running=sorted(ended.running),
            waits=ended.waits,
            bound=bound,
            seconds=seconds,
            trace=trace_,
            difference=difference,
            leaks=[*leaks(ended.timeline), *ended.orphans],
            start=ended.timeline.zero or begun,
            recorded=True,
        )
        found = record.read(place)
        return found, judge(found, expected=expected)


@contextmanager
def _printing(results: Results | None, place: Path) -> Iterator[dict[str, IO[bytes]]]:
    """Yield where the command prints. Raises StaleResult."""
    if results is None:
        yield {}
        return
    output, errors = results.begin(place)
    with output.open("ab") as first, errors.open("ab") as second:
        yield {"stdout": first, "stderr": second}


def _deadline(place: Path, plan: Plan, bound: float | None, begun: float, patience: float) -> float:
    """Compute from the ledgers so far how many seconds after its beginning the command is overdue."""
    so_far = Run("", plan, read(place), bound=bound)
    first_seen = _first_seen(so_far)
    since = 0.0 if first_seen is None else first_seen + so_far.timeline.zero - begun
    return max(patience, since + allowed(so_far, first_seen)[0] + LATER)


def _survivors(place: Path, plan: Plan, bound: float | None) -> float:
    """Compute from the ledgers so far how many seconds roles have to end after the plan has killed their command."""
    so_far = Run("", plan, read(place), bound=bound)
    return allowed(so_far, _first_seen(so_far))[0]


def _first_seen(run: Run) -> float | None:
    return min((event.time for event in first_effects(run).values() if event is not None), default=None)
