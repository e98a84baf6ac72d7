"""Folders of worlds and runs: only their user may read them."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from faults.plan import Plan
from faults.run.runs import prepared
from faults.testing.running_test import RunningTest, place_for, tell
from reference.system.temporary_folders import make_private
from reference.world import launch
from tests.support.roles_plain import name


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


@pytest.mark.parametrize("maker", ["make_private", "of a run"])
def test_a_folder_that_is_there_stays_as_it_is(maker: str, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir(mode=0o755)
    MAKERS[maker](tmp_path / "old")
    assert mode(tmp_path / "old") == 0o755


@pytest.mark.timeout(10)
@pytest.mark.parametrize("place", ["file", "file/below", "file/far/below"])
@pytest.mark.parametrize("maker", ["make_private", "of a failed test"])
def test_what_is_no_folder_is_refused(maker: str, place: str, tmp_path: Path) -> None:
    """It is refused at once, because no name within it can be made."""
    (tmp_path / "file").touch()
    new = tmp_path / place / ("new" if maker == "of a failed test" else "")
    with pytest.raises((FileExistsError, NotADirectoryError)):
        MAKERS[maker](new)


def test_a_failed_test_that_cannot_be_kept_says_why(tmp_path: Path) -> None:
    """Its report has that line instead of the place; the run goes on."""
    (tmp_path / "file\x1b").touch()
    option = SimpleNamespace(faults_keep=str(tmp_path / "file\x1b"))
    item: Any = SimpleNamespace(config=SimpleNamespace(option=option), nodeid="test_it.py::test")
    report: Any = SimpleNamespace(when="call", sections=[])
    tell(item, RunningTest(), report)
    ((title, text),) = report.sections
    assert (title, text[:33]) == ("faults: kept", "nothing: [Errno 17] File exists: ")
    assert text.isprintable()


@pytest.mark.parametrize("place", ["file", "link"])
def test_a_failed_test_cannot_be_kept_in_what_is_no_folder(place: str, tmp_path: Path) -> None:
    """This is an error; no other name is tried."""
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere" / "else")
    with pytest.raises(FileExistsError):
        place_for(tmp_path / place, "test_a")


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
