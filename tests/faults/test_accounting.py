"""What exists before and after a test: a file that somebody else has open for a moment is no leak."""

from __future__ import annotations

import os
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from faults.testing import leaks
from faults.testing.leaks import Accounting


def test_a_file_that_is_closed_soon_after_the_test_is_no_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread of a world reads a role's state from /proc, and can close that file only when it runs again."""
    accounting = Accounting(["descriptors"], "none")
    file = Path(os.devnull).open()  # noqa: SIM115 (closed by the third look)
    looks: list[int] = []

    def look() -> leaks.Seen:
        looks.append(1)
        if len(looks) == 3:
            file.close()
        return found()

    found = leaks.LOOKS["descriptors"]
    monkeypatch.setitem(leaks.LOOKS, "descriptors", look)  # type: ignore[misc]
    assert accounting.left() == []
    assert len(looks) == 4


def test_a_file_that_stays_open_is_a_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaks, "CLOSING", 0.05)
    accounting = Accounting(["descriptors"], "none")
    with Path(os.devnull).open() as file:
        assert accounting.left() == [f"file descriptor {file.fileno()}: {os.devnull}"]
    assert accounting.left() == []


def test_only_what_has_begun_since_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shared memory that was made anew under its old name has begun since."""
    monkeypatch.setattr(leaks, "GRACE", 0.05)
    name = f"faults_test_{os.getpid()}"
    with ExitStack() as undo:

        def begin(what: str) -> subprocess.Popen[bytes]:
            (leaks.SHARED / f"{name}_{what}").write_bytes(b"1")
            undo.callback((leaks.SHARED / f"{name}_{what}").unlink, missing_ok=True)
            process = undo.enter_context(subprocess.Popen(["sleep", "1000"]))
            undo.callback(process.kill)
            return process

        begin("one")
        begin("two")
        accounting = Accounting(["processes", "memory"], "none")
        assert accounting.left() == []
        again, old = leaks.SHARED / f"{name}_two", leaks.SHARED / f"{name}_old"
        again.rename(old)  # so that its inode is not free for the new one
        undo.callback(old.unlink)
        again.write_bytes(b"2")
        third = begin("three")
        assert accounting.left() == [
            f"process {third.pid}: sleep 1000",
            *(f"shared memory {name}_{each}" for each in ("old", "three", "two")),
        ]
