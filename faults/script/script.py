"""A user's own RPC program under a plan, unchanged: any command whose processes are Python's.

The command is given FAULTS_RUN, which `autostart` reads in every process of it, and ``startup`` on PYTHONPATH, for
where the package is not installed. Roles are what the program calls itself in `rpc.init_rpc`.
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
from faults.script.tied_processes import wards
from faults.verdict.checks import Judgement, judge
from faults.verdict.failures import COMMAND
from faults.verdict.script_outcomes import Known, fates, of_lives, planned
from faults.verdict.time_bounds import bound_of_timeout, first_bite, lasting, limit, timeout_of
from reference.outcome import Exited, Killed

# Seconds until a command is ended, unless its own timeouts ask for more; and how much later than its bound.
DEADLINE, LATER = 300.0, 30.0


def run_script(
    command: Sequence[str],
    plan: Plan,
    folder: str | os.PathLike[str],
    *,
    deadline: float | None = None,
    bound: float | None = None,
) -> tuple[Run, Judgement]:
    """Run ``command`` under ``plan``; what it prints goes where this process prints.

    The ends are the command's ('Returned' for status 0) and, as the ledgers tell them, those of its roles.

    ``bound``: seconds within which all have to end after the first fault; by default by the program's own timeouts.
    ``deadline``: until the command is ended; by default 300, or beyond the bound where that is later.

    Raises:
        PlanError: faults of a network, for which roles have to be started by `world.launch`.
        OSError: the command cannot be started.
    """
    if plan.at("network"):
        raise PlanError("a network's faults need roles that are started by reference.world.launch, got a script")
    with renewed(plan, folder) as place:  # until it is judged
        _play(command, plan, place, deadline=deadline, bound=bound)
        found = record.read(place)
        return found, judge(found)


def _play(command: Sequence[str], plan: Plan, place: Path, *, deadline: float | None, bound: float | None) -> None:
    """Start it, see it to its end, and write that down."""
    with wards() as variables, adopting() as left:
        process = subprocess.Popen(command, env={**_environment(place), **variables}, start_new_session=True)
        begun = time.monotonic()
        try:
            end = _wait(process, deadline or DEADLINE, lambda: deadline or _deadline(place, plan, bound, begun))
            # Before its session is ended, or what is left there would not be seen. Who was killed could not see to it.
            orphans = left(_grace(place)) if end.kind in ("Returned", "Exited") else []
            running = _running(place, 0.0 if end.kind == "Overdue" else GRACE)
        finally:
            _end(process)
        orphans = orphans or left()
    timeline = read(place)
    timeout = timeout_of(timeline, first_bite(plan, timeline))
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


def _environment(place: Path) -> dict[str, str]:
    path = [str(Path(__file__).parents[1] / "startup"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, VARIABLE: str(place), SAID: str(place), "PYTHONPATH": os.pathsep.join(path)}


def _deadline(place: Path, plan: Plan, bound: float | None, begun: float) -> float:
    """Seconds from the beginning until the command is overdue, by what the ledgers tell so far."""
    timeline = read(place)
    bitten = first_bite(plan, timeline)
    allowed = bound_of_timeout(timeout_of(timeline, bitten)) if bound is None else bound
    since = 0.0 if bitten is None else bitten + timeline.zero - begun
    return max(DEADLINE, since + allowed + lasting(plan) + LATER)


def _wait(process: subprocess.Popen[bytes], first: float, deadline: Callable[[], float]) -> End:
    """Until it ends, or its deadline, which is asked for again when ``first`` is over."""
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
    """Seconds that what is left has to end by itself, which costs nothing where nothing is left."""
    return GRACE_OF_KILLED if planned(read(place)) else GRACE


def _running(place: Path, grace: float) -> set[int]:
    """The processes of roles that do not end within so many seconds after the command."""
    due = time.monotonic() + grace
    pids = {int(event.details["pid"]) for event in read(place).of("start") if not event.role.startswith("+")}
    return {pid for pid in pids if is_running(pid) and not ends_by(pid, due)}


def _end(process: subprocess.Popen[bytes]) -> None:
    """Its whole session: whatever it has started and not taken with it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
