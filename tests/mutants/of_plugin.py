"""Bugs in what the pytest plugin notices, and undoes."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS: tuple[Mutant, ...] = ()
