"""Mistakes in the programs of examples/numpy, as people make them.

``numpy_mistakes.diff`` has a paragraph for each, as those of planted bugs are: its name; then the case, the step and
kind of the stage in which the mistake is, and its cause if that is a general one; and the lines that are replaced.
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
from tests.mutants import catalog
from tests.mutants.mutant import Mutant

PROGRAMS = Path(__file__).parents[2] / "examples" / "numpy"


@dataclass(frozen=True)
class Mistake:
    """``cause``: empty if there is no general one."""

    bug: Mutant
    case: str
    place: tuple[int, str]
    cause: str


def numpy_mistakes() -> Iterator[Mistake]:
    for bug in catalog.read(Path(__file__).with_suffix(".diff").read_text().strip()):
        case, place, *cause = bug.models.split()
        step, kind = place.split("/")
        yield Mistake(bug, case, (int(step), kind), "".join(cause))


def answer(mistake: Mistake, folder: Path) -> dict[str, torch.Tensor]:
    """Let the program with the mistake answer its case."""
    shutil.copytree(PROGRAMS, folder / "numpy")
    mistake.bug.plant(folder / "numpy")
    write_case(folder / "case", prepared(mistake.case))
    command = [sys.executable, str(folder / "numpy"), str(folder / "case"), str(folder)]
    subprocess.run(command, check=True, timeout=60, capture_output=True)
    found = read(folder / "trace.safetensors", 2**25)
    assert not found.problems
    return {name: torch.from_numpy(np.array(array)) for name, array in found.arrays.items()}
