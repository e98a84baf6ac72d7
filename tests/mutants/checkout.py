"""Copy the checkout to plant bugs in the copy, and remove every trace of the copy."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class NoCheckout(RuntimeError):
    """git cannot say which files belong to the project."""


def files_of(root: Path) -> list[str]:
    """The tracked files, and the new ones that git does not ignore. Raises NoCheckout."""
    command = ["git", "-C", str(root), "ls-files", "-co", "--exclude-standard", "-z"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        why = getattr(error, "stderr", None) or str(error)
        raise NoCheckout(f"{root} is no checkout of git: {' '.join(why.split())}") from error
    return [name for name in dict.fromkeys(said.split("\0")) if name and (root / name).is_file()]


@contextmanager
def copied(root: Path) -> Iterator[Path]:
    """Make a copy in a temporary folder. At the end of the block, end every process that still runs in it."""
    folder = Path(tempfile.mkdtemp(prefix="mutant-"))
    place = folder / "copy"
    try:
        for name in files_of(root):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / name, place / name)
        yield place
    finally:
        end_all_in(folder)
        shutil.rmtree(folder, ignore_errors=True)


def end_all_in(folder: Path) -> None:
    """End the processes whose working directory lies in ``folder``: roles lead sessions of their own (Linux)."""
    for link in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError, ValueError):  # the process has ended, or is another user's
            place = Path(os.readlink(link))  # noqa: PTH115 (a Path would resolve what has been deleted)
            if place.is_relative_to(folder) and int(link.parent.name) != os.getpid():
                os.kill(int(link.parent.name), signal.SIGKILL)
