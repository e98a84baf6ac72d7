"""The folder for the runs of a command: kept where the user says so, or if a run has not passed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from faults.ledger import record
from reference.cli.options import BadInput
from reference.system import temporary_folders
from reference.system.printable import printable


@contextmanager
def stored(given: str | None) -> Iterator[tuple[Path, list[bool | None]]]:
    """Yield the folder for runs, and a list to which the caller appends whether each run passed.

    Without ``given`` the folder is temporary. It is kept, and its name printed, if a run has not passed, or if the
    command fails after it has recorded a run.
    """
    place = Path(given) if given is not None else temporary_folders.make("faults-")
    passed: list[bool | None] = []
    try:
        yield place, passed
    except Exception as error:
        if not isinstance(error, BadInput) and any(place.rglob(record.RUN)):
            passed.append(None)
        raise
    finally:
        if given is None and all(passed):
            temporary_folders.remove(place)
        elif given is None:
            temporary_folders.keep(place)
            print(f"stored in {printable(str(place))}", file=sys.stderr)
