"""A run's folder: which of its files a run has written, and how a new run takes the place of an earlier one.

The files of an earlier run are set aside, and put back if the new run fails before one of its roles has begun a ledger.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from faults import hook
from faults.ledger import SUFFIX
from faults.plan import Plan, PlanError
from faults.record import RUN, RecordError, read
from reference.private import make_private

# Says that a folder is a run's, where a plan alone would not: it may be a user's own.
MARK = ".faults-run"
# Where the files of an earlier run are until the new one has begun.
EARLIER = ".faults-earlier"

_BEGIN = b'{"event": "start"'


@contextmanager
def renewed(plan: Plan, folder: str | os.PathLike[str]) -> Iterator[Path]:
    """The folder, with ``plan`` and nothing of an earlier run.

    An error within the block before any role has begun its ledger leaves the folder as it was.

    Raises:
        PlanError: it has no name or is a file, or holds a file of a run's name that no run has written.
        OSError: it cannot be made or written.
    """
    if not os.fspath(folder):
        raise PlanError("a run's folder has no name: wanted a folder, got ''")
    place = Path(folder).resolve()
    if place.is_file():
        raise PlanError(f"{place} is a file: wanted a folder for the run")
    made = _make(place)
    if (place / EARLIER).is_dir():  # a launcher was killed before it had removed it
        _end(place)
    if stranger := _stranger(place):
        raise PlanError(
            f"{place} has {stranger.name}, which no run has written: wanted an empty folder, or one of a run"
        )
    try:
        _set_aside(place)
        (place / MARK).touch()
        (place / hook.PLAN).write_bytes(f"{plan.to_json()}\n".encode())  # whatever the locale is
        yield place
    except BaseException:
        _end(place)
        for each in made:
            with suppress(OSError):  # something is in it
                each.rmdir()
        raise
    shutil.rmtree(place / EARLIER, ignore_errors=True)


def _make(place: Path) -> list[Path]:
    """Make the folder. Those that were not there, the innermost first."""
    missing = [each for each in (place, *place.parents) if not each.exists()]
    make_private(place)
    return missing


def _stranger(place: Path) -> Path | None:
    """A file that would be taken for a run's, and is not; None if a new run may take the place of what is there."""
    ledgers = list(place.glob(f"*{SUFFIX}"))
    for each in ledgers:
        if not _is_ledger(each):
            return each
    if (place / MARK).exists() or (ledgers and (place / hook.PLAN).exists()) or _is_run(place):
        return None
    return next(iter(_files(place)), None)


def _is_ledger(path: Path) -> bool:
    """Whether a role has begun it; it may have been killed in the middle of its first line."""
    with suppress(OSError), path.open("rb") as file:
        return _BEGIN.startswith(file.read(len(_BEGIN)))
    return False


def _is_run(place: Path) -> bool:
    with suppress(RecordError):
        return read(place).complete
    return False


def _files(place: Path) -> list[Path]:
    """What a run has written there, and what its roles have printed."""
    ledgers = sorted(place.glob(f"*{SUFFIX}"))
    printed = [each.with_suffix(suffix) for each in ledgers for suffix in (".log", ".stacks")]
    signs = [each for pattern in ("*.term", "*.int", "+.*.status") for each in sorted(place.glob(pattern))]
    return [each for each in (place / hook.PLAN, place / RUN, *ledgers, *printed, *signs) if each.is_file()]


def _set_aside(place: Path) -> None:
    files = _files(place)
    if files:
        (place / EARLIER).mkdir(exist_ok=True)
    for each in files:  # the plan first: as long as no new one is written, all of them can be put back
        each.rename(place / EARLIER / each.name)


def _end(place: Path) -> None:
    """Put the earlier run's files back, unless a role of the new run has begun."""
    earlier, plan = place / EARLIER, place / hook.PLAN
    if not (plan.exists() and any(place.glob(f"*{SUFFIX}"))):
        plan.unlink(missing_ok=True)
        for each in earlier.iterdir() if earlier.is_dir() else ():
            each.rename(place / each.name)
        if not plan.exists():
            (place / MARK).unlink(missing_ok=True)
    shutil.rmtree(earlier, ignore_errors=True)
