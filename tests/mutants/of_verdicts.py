"""Bugs in how a run of somebody else's program is judged."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS: tuple[Mutant, ...] = ()
