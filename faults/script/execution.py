"""Execute a script's command until it ends or is overdue, and look at what it leaves, before its session is killed."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from faults.judge.facts import crashes
from faults.ledger.ledger import Timeline, read
from faults.ledger.record import End
from faults.ledger.run_files import statuses
from faults.run.orphans import GRACE, GRACE_OF_KILLED, adopting
from faults.run.process_tree import ends_by, is_running
from faults.script.autostart import SAID, VARIABLE, WHOLE_LINES
from faults.script.stacks import STACKS
from faults.script.tied_processes import tied_environment
from faults.script.waits import waits
from reference.outcome import Exited, Killed
from reference.system.long_waits import wait_until


@dataclass(frozen=True)
class Ended:
    """The end of a command, the roles that still ran then, the processes it left, the ledgers, and where an overdue
    command's processes waited. ``statuses``, ``gone``: as in `faults.ledger.record.Run`."""

    end: End
    running: set[int]
    orphans: list[str]
    timeline: Timeline
    waits: dict[str, str] = field(default_factory=dict)
    statuses: dict[int, int] = field(default_factory=dict)
    gone: dict[int, float] = field(default_factory=dict)


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
) -> Ended:
    """Start the command, and wait for its end. Its processes find the file for their stacks there.

    ``streams``: where it prints, as arguments of `Popen`; ``first``: seconds after which ``deadline`` is asked for the
    seconds until the command is overdue, because these depend on what the ledgers tell by then; ``survivors``: asked
    for the seconds that roles have to end after the plan has killed the command.

    Raises:
        OSError: the command cannot be started.
    """
    (place / STACKS).touch(0o600)
    ends = _Ends(place)
    with tied_environment() as variables, adopting() as left:
        environment = {**_environment(place), **variables, **({WHOLE_LINES: "1"} if streams else {})}
        process = subprocess.Popen(command, env=environment, start_new_session=True, **streams)
        try:
            end = _wait(process, ends, first, deadline)
            ended = _overdue(end, place) if end.kind == "Overdue" else _ended(end, place, left, ends, survivors)
        finally:
            _end(process)
            ends.close()
        told = {pid: status for pid, status in statuses(place).items() if status is not None}
        gone = {pid: seen for pid, seen in ends.seen.items() if pid not in told}
        return replace(ended, orphans=ended.orphans or left(), statuses=told, gone=gone)


class _Ends:
    """Sees when each process ends that has begun to play a role, by its file for a status."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._handles: dict[int, int] = {}
        self.seen: dict[int, float] = {}  # process id to monotonic seconds

    def wait(self, seconds: float, *others: int) -> list[int]:
        """Wait until a process ends, or one of these descriptors is ready. Return those that are."""
        for pid in statuses(self._folder).keys() - self._handles.keys() - self.seen.keys():
            try:
                self._handles[pid] = os.pidfd_open(pid)
            except ProcessLookupError:
                self.seen[pid] = time.monotonic()
        ready = select.select([*self._handles.values(), *others], [], [], seconds)[0]
        for pid in [pid for pid, handle in self._handles.items() if handle in ready]:
            self.seen[pid] = time.monotonic()
            os.close(self._handles.pop(pid))
        return [each for each in others if each in ready]

    def close(self) -> None:
        for handle in self._handles.values():
            os.close(handle)
        self._handles.clear()


def _overdue(end: End, place: Path) -> Ended:
    """Look at a command that is to be killed, before anything is done to its processes."""
    timeline = read(place)
    return Ended(end, _running(timeline, 0.0), [], timeline, waits(place, _played(timeline)))


def _ended(end: End, place: Path, left: Callable[..., list[str]], ends: _Ends, survivors: Callable[[], float]) -> Ended:
    """Look at what a command leaves, before its session is killed. A command that was killed could not clean up; roles
    that outlive it have their bound."""
    by_plan = end.kind == "Killed" and end.process in crashes(read(place))
    orphans = left(_grace(place)) if end.kind in ("Returned", "Exited") else []
    running = _running(read(place), survivors() if by_plan else GRACE)
    ends.wait(0.0)
    return Ended(end, running, orphans, read(place))


def _environment(place: Path) -> dict[str, str]:
    path = [str(Path(__file__).parents[1] / "startup"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, VARIABLE: str(place), SAID: str(place), "PYTHONPATH": os.pathsep.join(path)}


def _wait(process: subprocess.Popen[bytes], ends: _Ends, first: float, deadline: Callable[[], float]) -> End:
    """Wait until the command ends, or is overdue. After ``first`` seconds the deadline is computed again."""
    handle, begun, due = os.pidfd_open(process.pid), time.monotonic(), first
    try:
        ended = wait_until(lambda seconds: ends.wait(seconds, handle), due)
        while not ended and due < deadline():
            due = deadline()
            ended = wait_until(lambda seconds: ends.wait(seconds, handle), begun + due - time.monotonic())
    finally:
        os.close(handle)
    if not ended:
        return End("Overdue", f"was overdue after {due:g} s", time.monotonic(), process=process.pid)
    return end_of(process.wait(), time.monotonic(), process.pid)


def _grace(place: Path) -> float:
    """Return the seconds that remaining processes have to end by themselves. If there are none, no time is spent."""
    return GRACE_OF_KILLED if crashes(read(place)) else GRACE


def _running(timeline: Timeline, grace: float) -> set[int]:
    """Return the processes of roles that do not end within ``grace`` seconds after the command."""
    due = time.monotonic() + grace
    return {pid for pid in _played(timeline) if is_running(pid) and not ends_by(pid, due)}


def _played(timeline: Timeline) -> dict[int, str]:
    """Return the roles of the processes that have started RPC."""
    starts = timeline.of("start")
    return {int(event.details["pid"]): event.role for event in starts if not event.role.startswith("+")}


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the command's process group, with all processes of it that are left."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
