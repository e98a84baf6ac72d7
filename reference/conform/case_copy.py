"""Give an implementation a copy of a case, and see afterwards whether it changed that or wrote beside its answer."""

from __future__ import annotations

import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reference.conform.suite import LONGEST, SuiteCase
from reference.system.plain_file import content_of


@contextmanager
def given_copy(case: SuiteCase, folder: Path) -> Iterator[Path]:
    """Make a copy of the case in a temporary folder, in which nothing else is, so that the suite stays as it is.

    It is made in ``folder``, so that an answer of any kind can be moved there without being copied.
    """
    with tempfile.TemporaryDirectory(dir=folder.resolve(), prefix="conform-", ignore_cleanup_errors=True) as place:
        given = Path(place, "case")
        shutil.copytree(case.folder, given)
        yield given


def changed(case: SuiteCase, given: Path) -> str:
    """Say what was written beside the folder for the answer; empty if nothing was."""
    place = given.parent
    if not is_folder(place) or not is_folder(place / "out"):
        return "it removed the folder for its answer"
    if more := sorted({path.name for path in place.iterdir()} - {"case", "out"}):
        return f"it wrote {', '.join(more)} outside its folder"
    if not is_folder(given) or _contents(given) != _contents(case.folder):
        return "it changed the folder of the case"
    return ""


def is_folder(path: Path) -> bool:
    """Whether it is a folder itself, not a link to one."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def _contents(folder: Path) -> dict[str, bytes | None]:
    """What the files of a folder hold; None of what is no file that can be read."""
    found: dict[str, bytes | None] = {}
    for path in folder.iterdir():
        try:
            found[path.name] = content_of(path, LONGEST)
        except OSError:
            found[path.name] = None
    return found
