"""Mistakes in the programs of examples/numpy, as people make them.

``numpy_mistakes.diff`` has a paragraph for each: its name, the case, the step and kind of the stage in which it is, and
its cause if it is a general one; then the lines that are replaced.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from reference.conform.inputs import write_case
from reference.conform.tensor_file import read
from reference.conform.twin import prepared

PROGRAMS = Path(__file__).parents[2] / "examples" / "numpy"


@dataclass(frozen=True)
class Mistake:
    """``old`` stands in the file once, and ``new`` in its place; ``cause``: empty if there is no general one."""

    name: str
    case: str
    place: tuple[int, str]
    cause: str
    file: str
    old: str
    new: str


def numpy_mistakes() -> Iterator[Mistake]:
    file = ""
    for paragraph in Path(__file__).with_suffix(".diff").read_text().strip().split("\n\n"):
        head, *lines = paragraph.split("\n")
        if head.startswith("=== "):
            file = head.removeprefix("=== ")
            continue
        name, case, place, *cause = head.replace(":", "").split()
        step, kind = place.split("/")
        old, new = ("".join(f"{line[1:]}\n" for line in lines if line[0] == sign) for sign in "-+")
        yield Mistake(name, case, (int(step), kind), "".join(cause), file, old, new)


def answer(mistake: Mistake, folder: Path) -> dict[str, torch.Tensor]:
    """Let the program with the mistake answer its case."""
    shutil.copytree(PROGRAMS, folder / "numpy")
    planted = folder / "numpy" / mistake.file
    text = planted.read_text()
    assert text.count(mistake.old) == 1, mistake
    planted.write_text(text.replace(mistake.old, mistake.new))
    write_case(folder / "case", prepared(mistake.case))
    command = [sys.executable, str(folder / "numpy"), str(folder / "case"), str(folder)]
    subprocess.run(command, check=True, timeout=60, capture_output=True)
    found = read(folder / "trace.safetensors", 2**25)
    assert not found.problems
    return {name: torch.from_numpy(np.array(array)) for name, array in found.arrays.items()}
