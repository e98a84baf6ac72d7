"""Temporary folders: only their user reads them, and those of a dead process are removed by the next."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from faults.plan import Plan
from faults.run.runs import prepared
from faults.testing.running_test import RunningTest, place_for, tell
from reference.system import temporary_folders
from reference.system.temporary_folders import make_private
from reference.world import launch
from tests.support.roles_plain import name

BEGIN = "import os, sys; from reference.system import temporary_folders; place = temporary_folders.make('world-'); "


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
    assert made.parent == place
    assert made.name[:6] == "world-"
    assert made.stat().st_mode & 0o777 == 0o700
    temporary_folders.tidy.cache_clear()
    temporary_folders.tidy(str(place))
    assert names(made) == [temporary_folders.MARK]
    temporary_folders.remove(made)
    assert names(place) == []


def test_the_folder_of_a_process_that_was_killed_is_removed_by_the_next(place: Path) -> None:
    text = "(place / 'a').mkdir(); (place / 'a' / 'b').touch(); os.kill(os.getpid(), 9)"
    assert ended(place, text) == -signal.SIGKILL
    left = names(place)
    assert [each[:6] for each in left] == ["world-"]
    made = temporary_folders.make("faults-")
    assert names(place) == [made.name]


def test_a_folder_whose_removal_was_cut_off_is_removed_by_the_next(place: Path) -> None:
    """Other files stand before and after its mark, in whatever order the system lists them."""
    text = """
mark, other = (place / name for name in (temporary_folders.MARK, "other"))
def fill(name): [(place / (name + str(number))).touch() for number in range(20)]
fill("a"), mark.rename(other), other.rename(mark), fill("b")
sys.addaudithook(lambda event, _: event == "os.remove" and not mark.exists() and os.kill(os.getpid(), 9))
temporary_folders.remove(place)
"""
    ended(place, text)
    made = temporary_folders.make("faults-")
    assert names(place) == [made.name]


def test_a_process_that_ends_by_itself_leaves_no_folder(place: Path) -> None:
    assert ended(place, "sys.exit(3)") == 3
    assert names(place) == []


def test_a_folder_that_was_kept_stays(place: Path) -> None:
    """So does one that has no mark."""
    assert ended(place, "(place / 'log').touch(); temporary_folders.keep(place); temporary_folders.keep(place)") == 0
    temporary_folders.tidy(str(place))
    assert [names(each) for each in place.iterdir()] == [["log"]]


def test_a_folder_stays_with_the_process_that_has_marked_it(place: Path) -> None:
    """Neither a child that would use it, too, nor the end of one leaves it to the next launcher."""
    text = """
uses = temporary_folders.claim, lambda place: temporary_folders.tidy(str(place.parent)), lambda place: sys.exit()
for use in uses:
    if not (child := os.fork()):
        temporary_folders.tidy.cache_clear()
        use(place)
        os._exit(0)
    os.waitpid(child, 0)
sys.exit(not place.exists())
"""
    assert ended(place, text) == 0


def test_a_folder_without_the_mark_or_the_name_is_nobodys_to_remove(place: Path) -> None:
    for each in ("world-x", "pymp-x", "other-x"):
        (place / each).mkdir()
    (place / "other-x" / temporary_folders.MARK).write_text(os.uname().nodename)
    (place / "pymp-x" / temporary_folders.MARK).symlink_to(place / "other-x" / temporary_folders.MARK)
    (place / "faults-x").symlink_to(place / "other-x")
    (place / "faults-y").touch()
    before = names(place)
    temporary_folders.tidy(str(place))
    assert names(place) == before
    assert names(place / "other-x") == [temporary_folders.MARK]


def test_a_folder_of_another_user_stays(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "world-x").mkdir()
    (place / "world-x" / temporary_folders.MARK).write_text(os.uname().nodename)
    monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)
    temporary_folders.tidy(str(place))
    assert names(place) == ["world-x"]
    monkeypatch.undo()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    temporary_folders.tidy.cache_clear()
    temporary_folders.tidy(str(place))
    assert names(place) == []


def test_a_folder_of_another_host_stays(place: Path) -> None:
    """The hosts may share the folder for temporary files and not its locks."""
    for each, host in (("world-x", "elsewhere"), ("world-y", os.uname().nodename), ("world-z", "")):
        (place / each).mkdir()
        (place / each / temporary_folders.MARK).write_text(host)
    temporary_folders.tidy(str(place))
    assert names(place) == ["world-x", "world-z"]


@pytest.fixture(autouse=True)
def _everybody_may_read_what_is_made() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


MAKERS: dict[str, Callable[[Path], object]] = {
    "make_private": make_private,
    "of a run": lambda place: prepared(Plan(), place),
    "of a failed test": lambda place: place_for(place.parent, place.name),
}


@pytest.mark.parametrize("maker", MAKERS)
def test_a_folder_that_is_made_is_its_users_alone(maker: str, tmp_path: Path) -> None:
    """Each folder above it that had to be made is its user's alone, too."""
    MAKERS[maker](tmp_path / "new" / "run")
    assert mode(tmp_path / "new") == mode(tmp_path / "new" / "run") == 0o700


def test_a_folder_that_another_process_makes_meanwhile_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mkdir = Path.mkdir

    def come_second(self: Path, **how: Any) -> None:
        mkdir(self)
        mkdir(self, **how)

    monkeypatch.setattr(Path, "mkdir", come_second)
    make_private(tmp_path / "new")


@pytest.mark.timeout(10)
@pytest.mark.parametrize("place", ["file", "file/far/below", "link"])
@pytest.mark.parametrize("maker", ["make_private", "of a failed test"])
def test_what_is_no_folder_is_refused(maker: str, place: str, tmp_path: Path) -> None:
    """It is refused at once, because no name within it can be made."""
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere" / "else")
    new = tmp_path / place / ("new" if maker == "of a failed test" else "")
    with pytest.raises((FileExistsError, NotADirectoryError)):
        MAKERS[maker](new)


def test_a_failed_test_that_cannot_be_kept_says_why(tmp_path: Path) -> None:
    """Its report has that line instead of the place; the run goes on."""
    (tmp_path / "file\x1b").touch()
    option = SimpleNamespace(faults_keep=str(tmp_path / "file\x1b"), faults_report=None)
    item: Any = SimpleNamespace(config=SimpleNamespace(option=option), nodeid="test_it.py::test")
    report: Any = SimpleNamespace(when="call", sections=[])
    tell(item, RunningTest(), report)
    ((title, text),) = report.sections
    assert title == "faults: kept"
    assert text[:33] == "nothing: [Errno 17] File exists: "
    assert text.isprintable()


def test_a_failed_test_with_a_long_name_in_any_script_is_kept(tmp_path: Path) -> None:
    """A file's name may have 255 bytes, which are fewer letters."""
    assert place_for(tmp_path, f"test_it.py::{'価' * 150}").is_dir()


def test_what_a_world_writes_is_its_users_alone_also_in_a_folder_that_others_may_read(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir(mode=0o755)
    for place, wanted in ((tmp_path / "old", 0o755), (tmp_path / "new", 0o700)):
        with launch(["a"], folder=place) as world:
            world.call("a", name)  # RPC is up
            assert mode(place) == wanted
            assert {path.name: mode(path) for path in place.iterdir()} == {
                "rendezvous": 0o600,
                "a.log": 0o600,
                "a.stacks": 0o600,
            }


def test_no_other_user_sees_what_is_in_a_worlds_own_folder() -> None:
    with launch(["a"]) as world:
        assert mode(world.folder) == 0o700
