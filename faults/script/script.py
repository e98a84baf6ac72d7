"""Run a user's own RPC program under a plan, unchanged: any command whose processes are Python's.

The command gets FAULTS_RUN, which `autostart` reads in each of its processes, and ``startup`` on PYTHONPATH, in case
the package is not installed. A role is a name that the program gives to `rpc.init_rpc`.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from faults.judge.bound import allowed
from faults.judge.facts import Facts, crashes
from faults.judge.rules import Judgement, judge
from faults.ledger import record
from faults.ledger.ledger import Timeline, read
from faults.ledger.moments_seen import starts_of
from faults.ledger.record import COMMAND, End, RecordError, Run
from faults.ledger.run_files import beginners, renewed, statuses
from faults.plan.plan import Plan, PlanError
from faults.run.leftovers import GRACE, GRACE_OF_KILLED, adopting, ends_by, kill_group, leaks, living
from faults.script.autostart import SAID, VARIABLE, WHOLE_LINES
from faults.script.results import UNCHECKED, Results
from faults.script.stacks import STACKS
from faults.script.waits import waits
from reference.outcome import Exited, Killed
from reference.system.interrupts import held
from reference.system.processes import no_pidfds, pidfd_open, readable, status_of_ended, wait_until

_PROGRAM = Path(__file__).parent / "parent_watcher.py"


@contextmanager
def tied_environment() -> Iterator[dict[str, str]]:
    """Yield environment variables. Processes that are started with them are killed when the block ends, or when this
    process ends."""
    name = f"FAULTS_SCRIPT_{os.getpid()}_{time.time_ns()}"
    command = [sys.executable, "-I", "-S", str(_PROGRAM), name]
    with held():  # the watcher inherits blocked interrupts, and keeps them blocked
        watcher = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield {name: "1"}
    finally:
        watcher.communicate()  # closes its input, and waits until it ends


def end_of(status: int, time: float, process: int = 0) -> End:
    """Return the end of a command with this status, negative for a signal."""
    if status == 0:
        return End("Returned", "returned", time, process=process)
    outcome = Exited(status) if status > 0 else Killed(-status)
    return End(type(outcome).__name__, str(outcome), time, process=process)


def execute(
    command: Sequence[str],
    place: Path,
    streams: Mapping[str, Any],
    first: float,
    deadline: Callable[[], float],
    survivors: Callable[[], float],
) -> tuple[dict[str, Any], list[str]]:
    """Start the command, and wait for its end. Its processes find the file for their stacks there. Return what is known
    of the ends, as fields of `faults.ledger.record.Run`, and the processes that the command left.

    ``streams``: where it prints, as arguments of `Popen`; ``first``: seconds after which ``deadline`` is asked for the
    seconds until the command is overdue, because these depend on what the ledgers tell by then; ``survivors``: asked
    for the seconds that roles have to end after a signal has ended the command.

    Raises:
        OSError: the command cannot be started.
    """
    if reason := no_pidfds():
        raise OSError(f"no command can be waited for here: {reason}")
    (place / STACKS).touch(0o600)
    ends = _Ends(place)
    with tied_environment() as variables, adopting() as left:
        environment = {**environment_for(place), **variables, WHOLE_LINES: "1"}
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, start_new_session=True, **streams
        )
        try:
            end = _wait(process, ends, first, deadline)
            # All this is seen before anything is done to its processes. A command that was killed could not clean up;
            # roles that outlive it have their bound.
            orphans = left(grace_of(place)) if end.kind in ("Returned", "Exited") else []
            overdue = end.kind == "Overdue"
            grace = 0.0 if overdue else survivors() if end.kind == "Killed" else GRACE
            running = _running(timeline := read(place), grace)
            waiting = waits(place, {pid: event.role for pid, event in starts_of(timeline).items()}) if overdue else {}
            ends.wait(0.0)
        finally:
            kill_group(process.pid)  # all of it that is left; `adopting` ends resource trackers
            process.kill()  # whatever it looks like
            process.wait()
            ends.close()
        told = {pid: status for pid, status in statuses(place).items() if status is not None}
        gone = {pid: seen for pid, seen in ends.seen.items() if pid not in told}
        fields = {"ends": {COMMAND: end}, "running": sorted(running), "waits": waiting, "statuses": told, "gone": gone}
        # An overdue command was killed here: it could not end who leads a session of its own, as torchrun's ranks do.
        return fields, orphans if overdue else orphans or left()


class _Ends:
    """Sees when each process ends that has begun to play a role, by its file for a status."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._handles: dict[int, int] = {}
        self.seen: dict[int, float] = {}  # process id to monotonic seconds

    def wait(self, seconds: float, *others: int) -> list[int]:
        """Wait until a process ends, or one of these descriptors is ready. Return those that are."""
        for pid in set(beginners(self._folder)) - self._handles.keys() - self.seen.keys():
            try:
                self._handles[pid] = pidfd_open(pid)
            except ProcessLookupError:
                self.seen[pid] = time.monotonic()
        ready = readable([*self._handles.values(), *others], seconds)
        for pid in [pid for pid, handle in self._handles.items() if handle in ready]:
            self.seen[pid] = time.monotonic()
            os.close(self._handles.pop(pid))
        return [each for each in others if each in ready]

    def close(self) -> None:
        for handle in self._handles.values():
            os.close(handle)
        self._handles.clear()


def environment_for(place: Path) -> dict[str, str]:
    """Return the environment of a command whose processes find the plan of this folder."""
    path = [str(Path(__file__).parents[1] / "startup"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, VARIABLE: str(place), SAID: str(place), "PYTHONPATH": os.pathsep.join(path)}


def _wait(process: subprocess.Popen[bytes], ends: _Ends, first: float, deadline: Callable[[], float]) -> End:
    """Wait until the command ends, or is overdue. After ``first`` seconds the deadline is computed again. The command
    is not reaped, because its group is to be killed."""
    handle, begun, due = pidfd_open(process.pid), time.monotonic(), first
    try:
        ended = wait_until(lambda seconds: ends.wait(seconds, handle), due)
        while not ended and due < (later := deadline()):
            due = later
            ended = wait_until(lambda seconds: ends.wait(seconds, handle), begun + due - time.monotonic())
        if not ended:
            return End("Overdue", f"was overdue after {due:g} s", time.monotonic(), process=process.pid)
        return end_of(status_of_ended(process.pid), time.monotonic(), process.pid)
    finally:
        os.close(handle)


def grace_of(place: Path) -> float:
    """Return the seconds that remaining processes have to end by themselves. If there are none, no time is spent."""
    return GRACE_OF_KILLED if crashes(read(place)) else GRACE


def _running(timeline: Timeline, grace: float) -> dict[int, str]:
    """Return the processes of roles that do not end within ``grace`` seconds, with their roles."""
    due = time.monotonic() + grace
    return {pid: event.role for pid, event in living(timeline).items() if not ends_by(pid, due)}


# Seconds until a command is killed. If its bound is later, it is killed `LATER` seconds after its bound.
DEADLINE, LATER = 300.0, 30.0


def check_network(plan: Plan) -> None:
    """Raise PlanError if the plan cannot be that of a script."""
    if plan.at("network"):
        raise PlanError("faults of a network need roles that are started by reference.world.launch, got a script")


def run_script(
    command: Sequence[str],
    plan: Plan,
    folder: str | os.PathLike[str],
    *,
    deadline: float | None = None,
    bound: float | None = None,
    patience: float = DEADLINE,
    results: Results = UNCHECKED,
    trace: bool = False,
    expected: Sequence[str] = (),
) -> tuple[Run, Judgement]:
    """Run ``command`` under ``plan``. What it prints goes into files beside its ``results``.

    ``bound``: seconds within which who fails has to end after the last fault before that; by default computed from the
    program's own timeouts. ``deadline``: seconds until the command is killed; by default ``patience``, or more if the
    bound is later.
    ``results``: how to check the results of a command that returned.
    ``trace``: trace RRefs and autograd contexts, so that a leak is named with its holder.
    ``expected``: the types of which a failure has to be one, by their names.

    Raises:
        PlanError: the plan has faults of a network, which need roles started by `world.launch`.
        StaleResult: a result is there before the run.
        CheckMissing: a check cannot be started.
        OSError: the command cannot be started.
    """
    check_network(plan)
    # Other runs stay out of the folder until this one is judged.
    with renewed(plan, folder, trace=trace) as place:
        begun = time.monotonic()
        so_far = partial(_so_far, place, plan, bound)

        def due() -> float:
            if deadline is not None:
                return deadline
            first_seen, last = so_far()
            return max(patience, max(0.0, first_seen - begun) + last + LATER)

        with results.printed_into(place) as streams:
            fields, orphans = execute(command, place, streams, deadline or patience, due, lambda: so_far()[1])
        seconds = time.monotonic() - begun
        trace_, difference = results.end(place, fields["ends"][COMMAND].returned) or (None, "")
        record.write(
            place,
            name=shlex.join(command),
            **fields,
            bound=bound,
            seconds=seconds,
            trace=trace_,
            difference=difference,
            leaks=[*leaks(read(place)), *orphans],
            start=begun,
            recorded=True,
        )
        found = record.read(place)
        return found, judge(found, expected=expected)


def _so_far(place: Path, plan: Plan, bound: float | None) -> tuple[float, float]:
    """Return from the ledgers so far when the first fault had an effect (monotonic; 0 if none had), and the seconds
    that roles have to end after that."""
    run = Run("", plan, read(place), bound=bound)
    first_seen = min((event.time for event in Facts(run).effects.values() if event is not None), default=None)
    return 0.0 if first_seen is None else first_seen + run.zero, allowed(run, first_seen)[0]


_LAST_SIGNAL = 64


def record_end(folder: str | os.PathLike[str], status: int) -> None:
    """Write ``run.json`` from what the ledgers tell and from the command's exit ``status`` (128 + N: signal N).

    The command counts as ended at the time of the last event. What is left is told of the processes on this machine,
    which have `GRACE` seconds to end.

    Raises:
        RecordError: the folder holds no prepared run, or one whose end is recorded.
    """
    place = Path(folder)
    found = record.read(place)
    if found.complete:
        raise RecordError(f"{place} tells how its run ended: wanted one that `prepare` made, to record an end")
    timeline = found.timeline
    left = _running(timeline, GRACE)
    last = max((event.time for event in timeline.events), default=0.0)
    record.write(
        place,
        name=f"{place.name}, started by something else",
        ends={COMMAND: end_of(128 - status if 128 < status <= 128 + _LAST_SIGNAL else status, last + timeline.zero)},
        statuses={pid: each for pid, each in statuses(place).items() if each is not None},
        running=sorted(left),
        seconds=last,
        leaks=[f"{role} still runs (process {pid})" for pid, role in left.items()],
        start=timeline.zero,
        recorded=True,
    )
