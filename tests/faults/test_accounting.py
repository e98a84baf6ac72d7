"""What exists before and after a test: a file that somebody else has open for a moment is no leak."""

from __future__ import annotations

import os
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
