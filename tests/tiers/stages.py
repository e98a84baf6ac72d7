"""Run commands in stages, several of a stage at once, keep their output, and tell how each ended."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from reference.system import interrupts

NICER = 10
# Seconds in which a command ends after a signal; then it is killed.
GRACE = 30.0


@dataclass(frozen=True)
class Job:
    """One command, in which the word ``python`` stands for this process's. ``limit``: seconds."""

    name: str
    command: str
    limit: float = 3600.0


# The first job of a stage prints as it runs. The others run at once with it, with lower priority, so that they take the
# time in which the first one waits, and none of its deadlines.
Stage = Sequence[Job]


@dataclass(frozen=True)
class End:
    """How a job ended. ``status``: of its command, None if it took longer than its limit."""

    status: int | None
    seconds: float
    last_line: str


def run(stages: Sequence[Stage], folder: Path, *, go_on: bool, known: Mapping[str, End]) -> dict[str, End]:
    """Run the stages one after the other; return how each job ended. ``folder`` keeps each one's output.

    ``go_on``: also after a stage that failed; ``known``: jobs that ended well before, and are not run again.
    If a signal interrupts it (`interrupts.listen`), all that was started has ended.
    """
    ends = dict(known)
    folder.mkdir(parents=True, exist_ok=True)
    _remember(folder, ends)
    for stage in stages:
        if todo := [job for job in stage if job.name not in ends]:
            with closing(_at_once(todo, folder)) as ended:
                for name, end in ended:
                    ends[name] = end
                    _remember(folder, ends)
        if not go_on and any(ends[job.name].status != 0 for job in stage):
            break
    return ends


def _at_once(jobs: Sequence[Job], folder: Path) -> Generator[tuple[str, End], None, None]:
    logs = {job: folder / f"{job.name}.log" for job in jobs}
    started: dict[Job, subprocess.Popen[bytes]] = {}
    try:
        for job in jobs:
            words = [sys.executable if word == "python" else word for word in shlex.split(job.command)]
            begin = partial(_begin, NICER if started else 0)
            with logs[job].open("wb") as output, interrupts.held():
                started[job] = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    preexec_fn=begin,
                    start_new_session=True,
                )
        print(f"--- {', '.join(job.name for job in jobs)}", flush=True)
        begun, waiting, shown = time.monotonic(), dict(started), dict.fromkeys(jobs, 0)
        while waiting:
            shown[jobs[0]] = _show(logs[jobs[0]], shown[jobs[0]])
            for job, process in list(waiting.items()):
                seconds = time.monotonic() - begun
                if process.poll() is None and seconds < job.limit:
                    continue
                del waiting[job]
                status = process.poll()
                _end([process])
                shown[job] = _show(logs[job], shown[job])
                yield job.name, End(status, seconds, _last_line(logs[job]))
            with suppress(subprocess.TimeoutExpired):
                next(iter(waiting.values()), started[jobs[0]]).wait(0.2)
    finally:
        _end(list(started.values()))


def _begin(nicer: int) -> None:
    os.nice(nicer)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, interrupts.SIGNALS)


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End processes and what they have started, which tox does not. A further signal does not cut their end short."""
    with interrupts.held():
        running = [process for process in processes if process.poll() is None]
        for process in running:
            os.killpg(process.pid, signal.SIGTERM)
        due = time.monotonic() + GRACE
        for process in running:
            with suppress(ProcessLookupError):  # all have ended
                while time.monotonic() < due:
                    process.poll()
                    os.killpg(process.pid, 0)
                    time.sleep(0.05)
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _show(log: Path, shown: int) -> int:
    """Print what a log has beyond its first ``shown`` bytes; return how many it has."""
    with log.open("rb") as output:
        output.seek(shown)
        said = output.read()
    sys.stdout.write(said.decode(errors="replace"))
    sys.stdout.flush()
    return shown + len(said)


def _last_line(log: Path) -> str:
    """Return the last line that says something, without the marks around pytest's."""
    lines = [line.strip(" =\r") for line in log.read_text(errors="replace").splitlines()]
    return next((line for line in reversed(lines) if any(each.isalnum() for each in line)), "")


# A folder's record of the jobs that have ended.
_RECORD = "ends.json"


def _remember(folder: Path, ends: Mapping[str, End]) -> None:
    (folder / _RECORD).write_text(json.dumps({name: asdict(end) for name, end in ends.items()}, indent=1))


def ended_well(folder: Path) -> dict[str, End]:
    """Return the jobs that a folder's record says to have ended well."""
    path = folder / _RECORD
    found = json.loads(path.read_text()) if path.exists() else {}
    return {name: End(**end) for name, end in found.items() if end["status"] == 0}


def report(title: str, stages: Sequence[Stage], ends: Mapping[str, End]) -> bool:
    """Print how each job ended; return whether every one ended well."""
    print(title)
    jobs = [job for stage in stages for job in stage]
    for job in jobs:
        if end := ends.get(job.name):
            failed = f"over {job.limit:.0f} s" if end.status is None else f"exit {end.status}"
            how = "ok" if end.status == 0 else failed
            print(f"{job.name:<16}{how:<12}{end.seconds:>6.0f} s  {end.last_line[:200]}")
        else:
            print(f"{job.name:<16}not run")
    return all(job.name in ends and ends[job.name].status == 0 for job in jobs)
