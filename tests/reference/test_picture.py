"""Pictures of figures: drawn without a screen, in the format that the name says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from reference.cli.table_command import draw, drawable

LINES = {"batched": [(1.0, 2.0), (2.0, 2.5)], "unbatched": [(1.0, 2.0), (2.0, 4.0)]}


@pytest.mark.parametrize(("suffix", "begin"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_a_files_format_is_that_of_its_name(suffix: str, begin: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"figure{suffix}"
    assert drawable(path)
    draw(path, LINES, x="observers", y="seconds", title="times")
    assert path.read_bytes().startswith(begin)


def test_a_picture_has_its_lines_and_words(tmp_path: Path) -> None:
    path = tmp_path / "figure.svg"
    draw(path, LINES, x="observers", y="seconds", title="times")
    text = path.read_text()
    for word in ("observers", "seconds", "times", "batched", "unbatched"):
        assert f"<!-- {word} -->" in text
    one = tmp_path / "one.svg"
    draw(one, {"batched": LINES["batched"]}, x="observers", y="seconds")
    assert "<!-- batched -->" not in one.read_text()


def test_another_format_is_refused(tmp_path: Path) -> None:
    assert not drawable("figure.txt")
    with pytest.raises(ValueError, match=r"wanted a name that ends with \.png or \.svg or \.pdf$"):
        draw(tmp_path / "figure.txt", LINES, x="", y="")


@pytest.mark.long
def test_matplotlib_is_imported_only_to_draw() -> None:
    code = "import sys, reference.cli.main; assert not [name for name in sys.modules if name.startswith('matplotlib')]"
    subprocess.run([sys.executable, "-c", code], check=True)
