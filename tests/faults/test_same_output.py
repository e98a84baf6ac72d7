"""The standard output of two runs is the same if its lines are, in any order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from faults.script.results import output_difference


@pytest.mark.parametrize(
    ("wanted", "got", "ignored", "said"),
    [
        ("a\nb\n", "b\na\n", (), None),
        ("a\na\n", "a\n", (), "no line 'a'"),
        ("a\n", "a\na\n", (), "the line 'a'"),
        ("a\nb\nc\n", "a\nd\n", (), "no line 'b' and 1 more, the line 'd'"),
        ("a 1.5 s\n", "a 2.5 s\n", (r"\d+\.\d s",), None),
        ("a\n", "a\ntried again 3\n", ("tried again.*",), None),  # nothing remains of the line
        ("a\n", "a\n\n", (), "the line ''"),
        ("a 1\n", "b 2\n", (r"\d",), "no line 'a ', the line 'b '"),
        ("", "", (), None),
    ],
)
def test_lines_are_compared_without_their_order(
    wanted: str, got: str, ignored: tuple[str, ...], said: str | None, tmp_path: Path
) -> None:
    (tmp_path / "wanted").write_text(wanted)
    (tmp_path / "got").write_text(got)
    patterns = [re.compile(each) for each in ignored]
    assert output_difference(tmp_path / "wanted", tmp_path / "got", patterns) == said


def test_output_that_is_no_text_is_compared(tmp_path: Path) -> None:
    (tmp_path / "wanted").write_bytes(b"\xff\n")
    (tmp_path / "got").write_bytes(b"\xff\n")
    assert output_difference(tmp_path / "wanted", tmp_path / "got") is None


def test_bytes_of_other_encodings_are_told_apart(tmp_path: Path) -> None:
    for name, byte in (("wanted", b"\xe9"), ("got", b"\xe8")):
        (tmp_path / name).write_bytes(b"sum " + byte + b"\n")
    found = output_difference(tmp_path / "wanted", tmp_path / "got")
    assert found is not None
    assert found.isprintable()
    assert output_difference(tmp_path / "got", tmp_path / "got") is None
