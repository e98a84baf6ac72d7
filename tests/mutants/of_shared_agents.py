"""Mistakes that an agent, a pipeline or a language model shares with its twin."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS: tuple[Mutant, ...] = ()
