"""Mistakes that a parameter server and its twin share."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS: tuple[Mutant, ...] = ()
