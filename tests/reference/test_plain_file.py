"""Reading whole files: plain ones of bounded length, and pipes only where they are allowed."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from reference.system.files import content_of


def test_a_file_is_read_up_to_the_longest_length(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\r\n\xff")
    assert content_of(tmp_path / "file") == content_of(tmp_path / "file", 3) == b"\r\n\xff"
    with pytest.raises(OSError, match="it has more than 2 bytes"):
        content_of(tmp_path / "file", 2)


def test_a_pipe_is_refused_at_once_unless_it_is_allowed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a plain file"):
        content_of(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(b"plan",))
    writer.start()
    assert content_of(tmp_path / "pipe", 4, pipe=True) == b"plan"
    writer.join()


def test_a_device_that_never_ends_is_too_long() -> None:
    with pytest.raises(OSError, match="it has more than 100 bytes"):
        content_of(Path("/dev/zero"), 100, pipe=True)


def test_a_missing_file_and_a_folder_are_the_systems_errors(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        content_of(tmp_path / "none")
    with pytest.raises(IsADirectoryError):
        content_of(tmp_path)
