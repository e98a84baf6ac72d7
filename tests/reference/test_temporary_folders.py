"""Temporary folders: those of a living process stay, those of a dead one are removed by the next."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from reference.system import temporary_folders

BEGIN = (
    "import os, signal, sys; from reference.system import temporary_folders; place = temporary_folders.make('world-'); "
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    temporary_folders.tidy.cache_clear()
    yield tmp_path
    for each in tmp_path.iterdir():
        temporary_folders.remove(each)
    temporary_folders.tidy.cache_clear()


def ended(place: Path, text: str) -> int:
    """The exit status of a process that makes a folder and then runs ``text``."""
    variables = {**os.environ, "TMPDIR": str(place)}
    return subprocess.run([sys.executable, "-c", BEGIN + text], env=variables, check=False, timeout=30).returncode


def names(place: Path) -> list[str]:
    return sorted(each.name for each in place.iterdir())


def test_a_folder_is_its_users_alone_and_says_that_its_launcher_lives(place: Path) -> None:
    made = temporary_folders.make("world-")
    assert (made.parent, made.name[:6], made.stat().st_mode & 0o777) == (place, "world-", 0o700)
    temporary_folders.tidy.cache_clear()
    temporary_folders.tidy(str(place))
    assert names(made) == [temporary_folders.MARK]
    temporary_folders.remove(made)
    assert names(place) == []


def test_the_folder_of_a_process_that_was_killed_is_removed_by_the_next(place: Path) -> None:
    text = "(place / 'a').mkdir(); (place / 'a' / 'b').touch(); os.kill(os.getpid(), signal.SIGKILL)"
    assert ended(place, text) == -signal.SIGKILL
    left = names(place)
    assert [each[:6] for each in left] == ["world-"]
    made = temporary_folders.make("faults-")
    assert names(place) == [made.name]


def test_a_process_that_ends_by_itself_leaves_no_folder(place: Path) -> None:
    assert ended(place, "sys.exit(3)") == 3
    assert names(place) == []


def test_a_folder_that_was_kept_stays(place: Path) -> None:
    assert ended(place, "(place / 'log').touch(); temporary_folders.keep(place)") == 0
    temporary_folders.tidy(str(place))
    assert [names(each) for each in place.iterdir()] == [["log"]]


def test_a_forked_child_leaves_its_parents_folder(place: Path) -> None:
    text = "child = os.fork(); child or sys.exit(); os.waitpid(child, 0); sys.exit(not place.exists())"
    assert ended(place, text) == 0


def test_a_folder_without_the_mark_or_the_name_is_nobodys_to_remove(place: Path) -> None:
    for name in ("world-x", "pymp-x", "other-x"):
        (place / name).mkdir()
    (place / "other-x" / temporary_folders.MARK).touch()
    (place / "faults-x").symlink_to(place / "other-x")
    (place / "faults-y").touch()
    before = names(place)
    temporary_folders.tidy(str(place))
    assert (names(place), names(place / "other-x")) == (before, [temporary_folders.MARK])


def test_a_folder_of_another_user_stays(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "world-x").mkdir()
    (place / "world-x" / temporary_folders.MARK).touch()
    monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)
    temporary_folders.tidy(str(place))
    assert names(place) == ["world-x"]
    monkeypatch.undo()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    temporary_folders.tidy.cache_clear()
    temporary_folders.tidy(str(place))
    assert names(place) == []
