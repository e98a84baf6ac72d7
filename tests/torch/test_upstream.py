"""The reproductions of torch's defects say of this torch what docs/upstream.md says of its version."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted((ROOT / "examples" / "upstream").glob("*.py"))
TABLE = (ROOT / "docs" / "upstream.md").read_text().partition("\n## ")[0]
ROWS = [line.split(" | ") for line in TABLE.splitlines() if line.startswith("| ")]
VERSIONS = ROWS[0][2:]


def series(version: str) -> str:
    """The first two numbers of a version."""
    found = re.match(r"\D*(\d+\.\d+)", version)
    assert found
    return found[1]


def test_each_program_has_a_row() -> None:
    assert [row[0].partition("`")[2].partition("`")[0] for row in ROWS[1:]] == [each.stem for each in PROGRAMS]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.stem)
def test_a_program_is_short_and_needs_torch_alone(program: Path) -> None:
    text = program.read_text()
    assert sum(bool(line.strip()) for line in text.splitlines()) <= 30
    imported = re.findall(r"^(?:import|from) (\w+)", text, re.MULTILINE)
    assert {*imported} - {"torch"} <= sys.stdlib_module_names


@pytest.mark.long
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.stem)
def test_this_torch_is_as_the_page_says(program: Path) -> None:
    """A version that the page lacks is not judged."""
    known = [series(version) for version in VERSIONS]
    if series(torch.__version__) not in known:
        pytest.skip(f"docs/upstream.md has no column of torch {torch.__version__}")
    wanted = ROWS[1 + PROGRAMS.index(program)][2 + known.index(series(torch.__version__))].strip(" |")
    done = subprocess.run([sys.executable, "-W", "ignore", program], check=False, timeout=120)
    assert {0: "no", 10: "yes"}.get(done.returncode) == wanted
