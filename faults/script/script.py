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
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from faults.ledger import record
from faults.ledger.ledger import read
from faults.ledger.record import End, Run
from faults.ledger.run_files import renewed
from faults.plan.plan import Plan, PlanError
from faults.run.orphans import GRACE, GRACE_OF_KILLED, adopting
from faults.run.process_tree import ends_by, is_running
from faults.run.runs import leaks
from faults.script.autostart import SAID, VARIABLE
from faults.script.exit_record import silent, statuses
from faults.script.own_signals import asked_to_end
from faults.script.tied_processes import tied_environment
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
    trace: bool = False,
) -> tuple[Run, Judgement]:
    """Run ``command`` under ``plan``. It prints to this process's output.

    The recorded ends are the command's ('Returned' for status 0), and those of its roles as the ledgers tell them.

    ``bound``: seconds within which all have to end after the first fault; by default computed from the program's own
    timeouts. ``deadline``: seconds until the command is killed; by default 300, or more if the bound is later.
    ``trace``: trace RRefs and autograd contexts, so that a leak is named with its holder.

    Raises:
        PlanError: the plan has faults of a network, which need roles started by `world.launch`.
        OSError: the command cannot be started.
    """
    if plan.at("network"):
        raise PlanError("faults of a network need roles that are started by reference.world.launch, got a script")
    with renewed(plan, folder, trace=trace) as place:  # other runs stay out of the folder until this one is judged
        begun = time.monotonic()
        ended = _execute(command, place, deadline, lambda: deadline or _deadline(place, plan, bound, begun))
        _record(command, plan, place, bound, begun, *ended)
        found = record.read(place)
        return found, judge(found)


def _record(
    command: Sequence[str],
    plan: Plan,
    place: Path,
    bound: float | None,
    begun: float,
    end: End,
    running: set[int],
    orphans: list[str],
) -> None:
    timeline = read(place)
    timeout = timeout_of(timeline, first_effect(plan, timeline))
    known = Known(asked_to_end(place), running, statuses(place), silent(place))
    record.write(
        place,
        name=shlex.join(command),
        ends={**fates(timeline, known), COMMAND: end},
        lives=of_lives(timeline, known),
        bound=bound_of_timeout(timeout) if bound is None else bound,
        limit=limit(timeout) if bound is None else "",
        seconds=time.monotonic() - begun,
        trace=None,
        difference="",
        leaks=[*leaks(timeline), *orphans],
        start=timeline.zero,
        recorded=True,
    )


def _execute(
    command: Sequence[str], place: Path, first: float | None, deadline: Callable[[], float]
) -> tuple[End, set[int], list[str]]:
    """Start the command, and wait for its end. Return that, the roles that still run, and the processes it leaves."""
    with tied_environment() as variables, adopting() as left:
        process = subprocess.Popen(command, env={**_environment(place), **variables}, start_new_session=True)
        try:
            end = _wait(process, first or DEADLINE, deadline)
            # Look before the session is killed, which removes what is left in it. A killed command could not clean up.
            orphans = left(_grace(place)) if end.kind in ("Returned", "Exited") else []
            running = _running(place, 0.0 if end.kind == "Overdue" else GRACE)
        finally:
            _end(process)
        return end, running, orphans or left()


def _environment(place: Path) -> dict[str, str]:
    path = [str(Path(__file__).parents[1] / "startup"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, VARIABLE: str(place), SAID: str(place), "PYTHONPATH": os.pathsep.join(path)}


def _deadline(place: Path, plan: Plan, bound: float | None, begun: float) -> float:
    """Compute from the ledgers so far how many seconds after its beginning the command is overdue."""
    timeline = read(place)
    first_seen = first_effect(plan, timeline)
    allowed = bound_of_timeout(timeout_of(timeline, first_seen)) if bound is None else bound
    since = 0.0 if first_seen is None else first_seen + timeline.zero - begun
    return max(DEADLINE, since + allowed + lasting(plan) + LATER)


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
    pids = {int(event.details["pid"]) for event in read(place).of("start") if not event.role.startswith("+")}
    return {pid for pid in pids if is_running(pid) and not ends_by(pid, due)}


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the command's process group, with all processes of it that are left."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
