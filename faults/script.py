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
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from faults import record
from faults.autostart import VARIABLE
from faults.checks import Judgement, judge
from faults.ledger import read
from faults.orphans import adopting
from faults.plan import Plan, PlanError
from faults.record import End, Run
from faults.runs import leaks
from faults.scope import prepared
from faults.uncaught import COMMAND
from reference.outcome import Exited, Killed


def run_script(
    command: Sequence[str], plan: Plan, folder: str | os.PathLike[str], *, deadline: float, bound: float
) -> tuple[Run, Judgement]:
    """Run ``command`` under ``plan``; what it prints goes where this process prints.

    Its end is the end of the command: 'Returned' for status 0. Roles that the plan kills may make it fail.

    Raises:
        PlanError: faults of a network, for which roles have to be started by `world.launch`.
        OSError: the command cannot be started.
    """
    if plan.at("network"):
        raise PlanError("a network's faults need roles that are started by reference.world.launch, got a script")
    place, begun = prepared(plan, folder), time.monotonic()
    with adopting() as left:
        process = subprocess.Popen(command, env=_environment(place), start_new_session=True)
        try:
            end = _wait(process, deadline)
            # Before its session is ended, or what is left there would not be seen. Who was killed could not see to it.
            orphans = left() if end.kind in ("Returned", "Exited") else []
        finally:
            _end(process)
        orphans = orphans or left()
    timeline = read(place)
    record.write(
        place,
        name=shlex.join(command),
        ends={COMMAND: end},
        bound=bound,
        seconds=time.monotonic() - begun,
        trace=None,
        difference="",
        leaks=[*leaks(timeline), *orphans],
        start=timeline.zero,
        recorded=True,
    )
    run = record.read(place)
    return run, judge(run)


def _environment(place: Path) -> dict[str, str]:
    path = [str(Path(__file__).parent / "startup"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, VARIABLE: str(place), "PYTHONPATH": os.pathsep.join(path)}


def _wait(process: subprocess.Popen[bytes], deadline: float) -> End:
    """Until it ends, or its deadline."""
    handle = os.pidfd_open(process.pid)
    try:
        ended = select.select([handle], [], [], deadline)[0]
    finally:
        os.close(handle)
    if not ended:
        return End("Overdue", f"was overdue after {deadline:g} s", time.monotonic())
    status = process.wait()
    if status == 0:
        return End("Returned", "returned", time.monotonic())
    outcome = Exited(status) if status > 0 else Killed(-status)
    return End(type(outcome).__name__, str(outcome), time.monotonic())


def _end(process: subprocess.Popen[bytes]) -> None:
    """Its whole session: whatever it has started and not taken with it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
