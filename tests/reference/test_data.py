"""The text that is shipped, and one that is too long."""

from __future__ import annotations

from pathlib import Path

import pytest

from reference.system.files import LONGEST
from reference.training.data import Corpus, read_text


def test_the_shipped_text_is_long_enough_and_ascii() -> None:
    text = read_text()
    assert text.isascii()
    assert len(text) > 2000
    assert 25 < Corpus(text).ntoken < 64


def test_a_text_that_is_too_long_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "text").open("wb") as file:
        file.truncate(LONGEST + 1)
    with pytest.raises(OSError, match=f"it has more than {LONGEST} bytes"):
        read_text(str(tmp_path / "text"))
