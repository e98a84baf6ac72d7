"""Bugs in the command lines of `python -m faults`: what is refused, and what is said."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS: tuple[Mutant, ...] = ()
