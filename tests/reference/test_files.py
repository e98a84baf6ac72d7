"""Files that are written whole or not at all, read only if plain and bounded, and those of a world's folder."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from reference.system.files import (
    Unusable,
    check_room,
    content_of,
    filled,
    log_of,
    place_of,
    roles_of,
    stacks_of,
    whole,
)
from tests.support.disk import files_of
from tests.support.hostile_files import HOSTILE_FILES

ROOT = Path(__file__).parents[2]
# Starts a process of root's without the capabilities by which root may read and write any file.
AS_A_USER = [] if os.geteuid() else ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
ASKS = "import sys; from reference.system.files import place_of; place_of(sys.argv[1])"


def half_written(path: Path) -> None:
    path.write_text("half of the n")
    raise ZeroDivisionError


def half_filled(folder: Path) -> None:
    (folder / "cases").mkdir()
    (folder / "link").symlink_to(folder.parent)
    half_written(folder / "cases" / "a")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_a_new_file_has_what_the_umask_leaves(mask: int, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        with whole(tmp_path / "t") as scratch:
            scratch.unlink()
            scratch.touch(mode=0o600)  # a writer may replace the file by a new one
    finally:
        os.umask(before)
    assert mode(tmp_path / "t") == 0o666 & ~mask
    assert [*tmp_path.iterdir()] == [tmp_path / "t"]


@pytest.mark.parametrize("kept", [0o600, 0o640, 0o666])
def test_a_file_keeps_its_permissions(kept: int, tmp_path: Path) -> None:
    (tmp_path / "t").touch()
    (tmp_path / "t").chmod(kept)
    with whole(tmp_path / "t") as scratch:
        scratch.write_text("new")
    assert mode(tmp_path / "t") == kept
    assert (tmp_path / "t").read_text() == "new"


def test_an_error_leaves_the_file_and_nothing_beside_it(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("old")
    with pytest.raises(ZeroDivisionError), whole(tmp_path / "t") as scratch:
        half_written(scratch)
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("t", "old")]


def test_a_full_disk_is_told_with_the_files_name(tmp_path: Path) -> None:
    with (
        files_of(16),
        pytest.raises(Unusable, match=f"^{tmp_path}/t: File too large$"),
        whole(tmp_path / "t") as scratch,
    ):
        scratch.write_text("more than 16 bytes")
    assert list(tmp_path.iterdir()) == []


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    for name in ("there", "not-there"):
        (tmp_path / "link").unlink(missing_ok=True)
        (tmp_path / "link").symlink_to(tmp_path / name)
        with whole(tmp_path / "link") as scratch:
            scratch.write_text("new")
        assert (tmp_path / "link").is_symlink() is True
        assert (tmp_path / name).read_text() == "new"


@pytest.mark.parametrize("permissions", [0o444, 0o644], ids=["read-only", "writable"])
def test_a_file_that_its_user_may_not_write_is_not_replaced(permissions: int, tmp_path: Path) -> None:
    """The user may write to the folder, which would be enough to replace the file."""
    (tmp_path / "t").touch()
    (tmp_path / "t").chmod(permissions)
    command = [*AS_A_USER, sys.executable, "-c", ASKS, str(tmp_path / "t")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
    assert ("PermissionError: [Errno 13]" in done.stderr, done.returncode) == (permissions == 0o444,) * 2


def test_what_the_kernel_does_not_let_anybody_write_is_not_replaced(tmp_path: Path) -> None:
    """The file is a running program; the kernel treats other users' links in a shared folder the same way."""
    program = shutil.copy(shutil.which("sleep") or "sleep", tmp_path / "t")
    with subprocess.Popen([program, "100"]) as process:
        try:
            with pytest.raises(OSError, match="Text file busy"):
                place_of(tmp_path / "t")
        finally:
            process.kill()


def test_a_file_is_read_up_to_the_longest_length(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\r\n\xff")
    assert content_of(tmp_path / "file") == content_of(tmp_path / "file", 3) == b"\r\n\xff"
    with pytest.raises(Unusable, match="it has more than 2 bytes"):
        content_of(tmp_path / "file", 2)


@pytest.mark.parametrize("name", HOSTILE_FILES)
def test_what_is_no_plain_file_is_refused_at_once_and_named(name: str, tmp_path: Path) -> None:
    make, why = HOSTILE_FILES[name]
    make(tmp_path / "f")
    with pytest.raises(Unusable) as caught:
        content_of(tmp_path / "f", 100)
    assert str(caught.value) == f"{tmp_path / 'f'}: {why}"
    assert caught.value.strerror == why


def test_an_error_is_made_again_from_its_text_as_torch_does_it_at_a_caller() -> None:
    error = Unusable("x", "No space left on device")
    assert str(type(error)(str(error))) == str(error) == "x: No space left on device"


def test_a_name_that_no_file_has_is_refused() -> None:
    with pytest.raises(Unusable, match=r"^a\\x00b: embedded null byte$"):
        content_of(Path("a\0b"))


def test_a_pipe_is_read_to_its_end_where_it_is_allowed(tmp_path: Path) -> None:
    with pytest.raises(Unusable, match="it has more than 100 bytes"):
        content_of(Path("/dev/zero"), 100, pipe=True)
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(b"plan",))
    writer.start()
    assert content_of(tmp_path / "pipe", 4, pipe=True) == b"plan"
    writer.join()


def test_a_folder_without_room_is_refused(tmp_path: Path) -> None:
    check_room(tmp_path)
    with files_of(2**15), pytest.raises(Unusable, match=f"^{tmp_path}: File too large$"):
        check_room(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("folder", ["there", "new", "new/below"])
def test_a_folder_is_as_it_was_after_an_error(folder: str, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(ZeroDivisionError), filled(tmp_path / folder):
        half_filled(tmp_path / folder)
    assert [each.name for each in tmp_path.rglob("*")] == ["there"]


def test_a_folder_with_a_file_is_not_filled(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(Unusable, match=f"^{tmp_path}: not empty, wanted a new folder$"), filled(tmp_path):
        raise AssertionError
    assert (tmp_path / "mine").exists()


def test_a_folder_is_filled_by_one_process_alone(tmp_path: Path) -> None:
    """Otherwise the one that fails would delete the files of the other."""
    with filled(tmp_path):
        with pytest.raises(Unusable, match=r"another process writes there, wanted a new folder$"), filled(tmp_path):
            raise AssertionError
        (tmp_path / "mine").touch()
    assert (tmp_path / "mine").exists()


def test_a_role_has_left_both_its_files(tmp_path: Path) -> None:
    for file in (log_of(tmp_path, "ps"), stacks_of(tmp_path, "ps"), log_of(tmp_path, "a"), stacks_of(tmp_path, "b")):
        file.touch()
    for folder in (log_of(tmp_path, "c"), stacks_of(tmp_path, "c")):
        folder.mkdir()
    assert roles_of(tmp_path) == {"ps"}
