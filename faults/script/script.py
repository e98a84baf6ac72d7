"""Run a user's own RPC program under a plan, unchanged: any command whose processes are Python's.

The command gets FAULTS_RUN, which `autostart` reads in each of its processes, and ``startup`` on PYTHONPATH, in case
the package is not installed. A role is a name that the program gives to `rpc.init_rpc`.
"""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import IO, Any

from faults.ledger import record
from faults.ledger.ledger import Timeline, read
from faults.ledger.record import End, Run
from faults.ledger.run_files import renewed
from faults.plan.plan import Plan, PlanError
from faults.run.left_over import leaks
from faults.run.orphans import GRACE, GRACE_OF_KILLED, adopting
from faults.run.process_tree import ends_by, is_running
from faults.script.autostart import SAID, VARIABLE
from faults.script.exit_statuses import silent, statuses
from faults.script.own_signals import asked_to_end
from faults.script.results import Results
from faults.script.tied_processes import tied_environment
from faults.script.waits import waits
from faults.verdict.checks import Judgement, judge
from faults.verdict.failures import COMMAND
from faults.verdict.script_outcomes import Known, fates, of_lives, planned
from faults.verdict.time_bounds import bound_of_timeout, first_effect, lasting, limit, timeout_of
from reference.outcome import Exited, Killed

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
) -> tuple[Run, Judgement]:
    """Run ``command`` under ``plan``. It prints to this process's output, or into files beside its ``results``.

    The recorded ends are the command's ('Returned' for status 0), and those of its roles as the ledgers tell them.

    ``bound``: seconds within which all have to end after the first fault; by default computed from the program's own
    timeouts. ``deadline``: seconds until the command is killed; by default ``patience``, or more if the bound is later.
    ``results``: how to check the results of a command that returned.

    Raises:
        PlanError: the plan has faults of a network, which need roles started by `world.launch`.
        StaleResult: a result is there before the run.
        OSError: the command cannot be started.
    """
    if plan.at("network"):
        raise PlanError("faults of a network need roles that are started by reference.world.launch, got a script")
    with renewed(plan, folder) as place:  # other runs stay out of the folder until this one is judged
        begun = time.monotonic()
        later = partial(_deadline, place, plan, bound, begun, patience)
        with _printing(results, place) as streams:
            ended = _execute(command, place, streams, deadline or patience, lambda: deadline or later())
        seconds = time.monotonic() - begun
        judged = results.end(place, ended.end.returned) if results else None
        _record(command, plan, place, bound, seconds, judged, ended)
        found = record.read(place)
        return found, judge(found)


def _record(
    command: Sequence[str],
    plan: Plan,
    place: Path,
    bound: float | None,
    seconds: float,
    judged: tuple[str, str] | None,
    ended: _Ended,
) -> None:
    timeline = ended.timeline
    timeout = timeout_of(timeline, first_effect(plan, timeline))
    known = Known(asked_to_end(place), ended.running, statuses(place), silent(place))
    record.write(
        place,
        name=shlex.join(command),
        ends={**fates(timeline, known), COMMAND: ended.end},
        lives=of_lives(timeline, known),
        waits=ended.waits,
        bound=bound_of_timeout(timeout) if bound is None else bound,
        limit=limit(timeout) if bound is None else "",
        seconds=seconds,
        trace=judged[0] if judged else None,
        difference=judged[1] if judged else "",
        leaks=[*leaks(timeline), *ended.orphans],
        start=timeline.zero,
        recorded=True,
    )


@dataclass(frozen=True)
class _Ended:
    """The end of a command, the roles that still ran then, the processes it left, the ledgers, and where an overdue
    command's processes waited."""

    end: End
    running: set[int]
    orphans: list[str]
    timeline: Timeline
    waits: dict[str, str] = field(default_factory=dict)


@contextmanager
def _printing(results: Results | None, place: Path) -> Iterator[dict[str, IO[bytes]]]:
    """Yield where the command prints. Raises StaleResult."""
    if results is None:
        yield {}
        return
    output, errors = results.begin(place)
    with output.open("ab") as first, errors.open("ab") as second:
        yield {"stdout": first, "stderr": second}


def _execute(
    command: Sequence[str], place: Path, streams: Mapping[str, Any], first: float, deadline: Callable[[], float]
) -> _Ended:
    """Start the command, and wait for its end."""
    with tied_environment() as variables, adopting() as left:
        environment = {**_environment(place), **variables}
        process = subprocess.Popen(command, env=environment, start_new_session=True, **streams)
        try:
            end = _wait(process, first, deadline)
            ended = _overdue(end, place) if end.kind == "Overdue" else _ended(end, place, left)
        finally:
            _end(process)
        return replace(ended, orphans=ended.orphans or left())


def _overdue(end: End, place: Path) -> _Ended:
    """Look at a command that is to be killed, before anything is done to its processes."""
    running, timeline = _running(place, 0.0), read(place)
    return _Ended(end, running, [], timeline, waits(place, _played(timeline)))


def _ended(end: End, place: Path, left: Callable[..., list[str]]) -> _Ended:
    """Look at what a command leaves, before its session is killed. A command that was killed could not clean up."""
    orphans = left(_grace(place)) if end.kind in ("Returned", "Exited") else []
    return _Ended(end, _running(place, GRACE), orphans, read(place))


def _environment(place: Path) -> dict[str, str]:
    path = [str(Path(__file__).parents[1] / "startup"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, VARIABLE: str(place), SAID: str(place), "PYTHONPATH": os.pathsep.join(path)}


def _deadline(place: Path, plan: Plan, bound: float | None, begun: float, patience: float) -> float:
    """Compute from the ledgers so far how many seconds after its beginning the command is overdue."""
    timeline = read(place)
    first_seen = first_effect(plan, timeline)
    allowed = bound_of_timeout(timeout_of(timeline, first_seen)) if bound is None else bound
    since = 0.0 if first_seen is None else first_seen + timeline.zero - begun
    return max(patience, since + allowed + lasting(plan) + LATER)


def _wait(process: subprocess.Popen[bytes], first: float, deadline: Callable[[], float]) -> End:
    """Wait until the command ends, or is overdue. After ``first`` seconds the deadline is computed again."""
    handle, begun, due = os.pidfd_open(process.pid), time.monotonic(), first
    try:
        ended = select.select([handle], [], [], due)[0]
        while not ended and due < deadline():
            due = deadline()
            ended = select.select([handle], [], [], max(0.0, begun + due - time.monotonic()))[0]
    finally:
        os.close(handle)
    if not ended:
        return End("Overdue", f"was overdue after {due:g} s", time.monotonic(), process=process.pid)
    status = process.wait()
    if status == 0:
        return End("Returned", "returned", time.monotonic(), process=process.pid)
    outcome = Exited(status) if status > 0 else Killed(-status)
    return End(type(outcome).__name__, str(outcome), time.monotonic(), process=process.pid)


def _grace(place: Path) -> float:
    """Return the seconds that remaining processes have to end by themselves. If there are none, no time is spent."""
    return GRACE_OF_KILLED if planned(read(place)) else GRACE


def _running(place: Path, grace: float) -> set[int]:
    """Return the processes of roles that do not end within ``grace`` seconds after the command."""
    due = time.monotonic() + grace
    return {pid for pid in _played(read(place)) if is_running(pid) and not ends_by(pid, due)}


def _played(timeline: Timeline) -> dict[int, str]:
    """Return the roles of the processes that have started RPC."""
    starts = timeline.of("start")
    return {int(event.details["pid"]): event.role for event in starts if not event.role.startswith("+")}


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the command's process group, with all processes of it that are left."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
