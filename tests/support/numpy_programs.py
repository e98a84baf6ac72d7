"""The programs of examples/numpy with a mistake, as people make them, and as right programs that compute otherwise.

``numpy_mistakes.diff`` has a paragraph for each mistake, as those of planted bugs are: its name; then the case, the
step and kind of the stage in which the mistake is, and its cause if that is a general one; and the lines that are
replaced.
``numpy_variants.diff`` has one for each variant: its name and the case.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from reference.conform.export import write_case
from reference.conform.tensor_file import Array, read
from reference.conform.twin import prepared
from tests.mutants import catalog
from tests.mutants.mutant import Mutant

PROGRAMS = Path(__file__).parents[2] / "examples" / "numpy"


@dataclass(frozen=True)
class Mistake:
    """``cause``: empty if there is no general one."""

    change: Mutant
    case: str
    place: tuple[int, str]
    cause: str


def numpy_mistakes() -> Iterator[Mistake]:
    for change in _changes("mistakes"):
        case, place, *cause = change.models.split()
        step, kind = place.split("/")
        yield Mistake(change, case, (int(step), kind), "".join(cause))


def numpy_variants() -> Iterator[Mutant]:
    """Yield the variants, each with its case in ``models``."""
    return _changes("variants")


def _changes(kind: str) -> Iterator[Mutant]:
    return catalog.read(Path(__file__).with_name(f"numpy_{kind}.diff").read_text().strip())


def answer(change: Mutant, case: str, folder: Path) -> dict[str, Array]:
    """Let the changed program answer a case."""
    shutil.copytree(PROGRAMS, folder / "numpy")
    change.plant(folder / "numpy")
    write_case(folder / "case", prepared(case))
    command = [sys.executable, str(folder / "numpy"), str(folder / "case"), str(folder)]
    subprocess.run(command, check=True, timeout=60, capture_output=True)
    found = read(folder / "trace.safetensors", 2**25)
    assert not found.problems
    return {name: np.array(array) for name, array in found.arrays.items()}
