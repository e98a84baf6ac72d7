"""Record the end of programs that something else started with FAULTS_RUN, such as torchrun on several machines."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from faults.inject.process.target import CannotFireError, process_of
from faults.ledger import record
from faults.ledger.ledger import Timeline
from faults.ledger.record import COMMAND, RecordError
from faults.ledger.run_files import statuses
from faults.script.execution import end_of


def record_end(folder: str | os.PathLike[str], status: int) -> None:
    """Write ``run.json`` from what the ledgers tell and from the command's exit ``status`` (128 + N: signal N).

    The command counts as ended at the time of the last event. What is left is told of the processes on this machine.

    Raises:
        RecordError: the folder holds no prepared run, or one whose end is recorded.
    """
    place = Path(folder)
    found = record.read(place)
    if found.complete:
        raise RecordError(f"{place} tells how its run ended: wanted one that `prepare` made, to record an end")
    timeline = found.timeline
    left = dict(_running(place, timeline))
    last = max((event.time for event in timeline.events), default=0.0)
    record.write(
        place,
        name=f"{place.name}, started by something else",
        ends={COMMAND: end_of(128 - status if status > 128 else status, last + timeline.zero)},
        statuses={pid: each for pid, each in statuses(place).items() if each is not None},
        running=sorted(left),
        seconds=last,
        leaks=[f"{role} still runs (process {pid})" for pid, role in left.items()],
        start=timeline.zero,
        recorded=True,
    )


def _running(place: Path, timeline: Timeline) -> Iterator[tuple[int, str]]:
    """Yield the processes of roles that run on this machine, with their roles."""
    for role in (each for each in timeline.roles if not each.startswith("+")):
        with suppress(CannotFireError):  # it has ended, or runs on another machine
            pid, handle = process_of(role, place)
            os.close(handle)
            yield pid, role
