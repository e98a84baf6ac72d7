"""Every mutant."""

from __future__ import annotations

from tests.mutants import of_checks, of_faults, of_traces, of_tutorials, of_worlds
from tests.mutants.mutant import Mutant

MUTANTS: tuple[Mutant, ...] = (
    *of_tutorials.MUTANTS,
    *of_worlds.MUTANTS,
    *of_traces.MUTANTS,
    *of_faults.MUTANTS,
    *of_checks.MUTANTS,
)
