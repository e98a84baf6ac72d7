"""How a line of a program is written: from the current folder, if that can be told."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from faults.tracing.user_frames import line_of, text_of


def written(file: str) -> str:
    return text_of((compile("", file, "exec"), 7))


def test_a_file_below_the_current_folder_is_named_from_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert written(f"{tmp_path}/own/shop.py") == "own/shop.py:7 in <module>"
    assert written(f"{tmp_path.parent}/shop.py") == f"{tmp_path.parent}/shop.py:7 in <module>"


def test_a_file_is_named_as_it_is_where_that_cannot_be_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program may have removed its current folder, or have code that has no file."""
    assert written("") == ":7 in <module>"
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert written("shop.py") == "shop.py:7 in <module>"


@dataclass
class Generated:
    """A class whose ``__init__`` was made of text."""

    peer: object


class Own:
    def __init__(self, peer: object) -> None:
        self.peer = peer


def test_a_class_has_the_line_of_its_own_code_only() -> None:
    code = Own.__init__.__code__
    assert line_of(Own) == ((code, code.co_firstlineno),)
    assert line_of(Generated) == line_of(torch.nn.Linear) == line_of(list) == ()
