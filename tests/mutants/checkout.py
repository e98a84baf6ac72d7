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


# Files in memory, and how many bytes must be free there (disks take half a second to make and remove a copy).
MEMORY, ENOUGH = Path("/dev/shm"), 2 << 30


@contextmanager
def folder_of_copies() -> Iterator[Path]:
    """Choose the folder for all copies: one in memory if there is room and the user has not set TMPDIR.

    That one is there before the first test begins, and has this process's id in its name: so no test takes it for
    shared memory that the test has left.
    """
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK) or shutil.disk_usage(MEMORY).free < ENOUGH:
        yield Path(tempfile.gettempdir())
        return
    prefix = f"mutants_{os.getpid()}_"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=MEMORY, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextmanager
def copied(root: Path, folder: Path) -> Iterator[Path]:
    """Copy the project's files into ``folder``. At the end of the block, end every process that runs in the copy."""
    with _place(folder) as place:
        for name in files_of(root):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, place / name)  # with its time, by which Python knows its bytecode again
        yield place


@contextmanager
def copied_again(original: Path) -> Iterator[Path]:
    """Make a folder with the files of a copy, which it shares: `write` and Python replace a file, and change none."""
    with _place(original.parent.parent) as place:
        _link_all(str(original), str(place))
        yield place


def _link_all(source: str, target: str) -> None:
    os.mkdir(target)  # noqa: PTH102 (as text: it is ten times as fast as with Paths, and done for every bug)
    with os.scandir(source) as entries:
        for entry in entries:
            put = _link_all if entry.is_dir(follow_symlinks=False) else os.link
            put(entry.path, f"{target}/{entry.name}")


def written(root: Path) -> dict[str, int]:
    """Return when each file was written, by its path in ``root``, bytecode excepted: Python writes that at any time."""
    files = (path for path in root.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {str(path.relative_to(root)): path.stat().st_mtime_ns for path in files}


def write(path: Path, text: str) -> None:
    """Replace a file of a copy, and forget its bytecode: the time of a file has seconds only in it."""
    path.unlink()
    path.write_text(text)
    for bytecode in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
        bytecode.unlink()


@contextmanager
def _place(folder: Path) -> Iterator[Path]:
    own = Path(tempfile.mkdtemp(prefix="mutant-", dir=folder))
    try:
        yield own / "copy"
    finally:
        end_all_in(own)
        shutil.rmtree(own, ignore_errors=True)


def end_all_in(folder: Path) -> None:
    """End the processes whose working directory lies in ``folder``: roles lead sessions of their own (Linux)."""
    for link in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError, ValueError):  # the process has ended, or is another user's
            place = Path(os.readlink(link))  # noqa: PTH115 (a Path would resolve what has been deleted)
            if place.is_relative_to(folder) and int(link.parent.name) != os.getpid():
                os.kill(int(link.parent.name), signal.SIGKILL)
