"""Programs that are run as a user runs them: where they stand, and their environment."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

SCRIPTS = Path(__file__).parents[1] / "scripts"


def own(name: str, place: Path) -> str:
    """Make a copy of one of the scripts in a folder of its own, and return its path."""
    return str(shutil.copy(SCRIPTS / name, place / name))


@contextmanager
def plain(place: Path) -> Iterator[None]:
    """Let programs find this checkout before an installed copy, in which no planted bug would be; meet on the loopback
    interface; and leave their files in ``place``, where `mp.spawn` keeps one for every process that was killed."""
    found = {"PYTHONPATH": str(SCRIPTS.parents[1])}
    with patch.dict(os.environ, found, TMPDIR=str(place), TP_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1"):
        yield
