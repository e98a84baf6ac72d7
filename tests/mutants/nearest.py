"""Put the mutants first that a change concerns."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from tests.mutants.mutant import Mutant
from tests.tiers.changes import changed, tree


def nearest(mutants: Sequence[Mutant]) -> list[Mutant]:
    """Sort the mutants by what has changed since all of them were killed: their file, a file of their killers, or
    neither. Those that are equally near stand in an order that the commit's tree decides."""
    seed, differ = tree(), changed() or frozenset()
    return sorted(mutants, key=lambda each: (_steps(each, differ), sha256(f"{seed} {each.name}".encode()).digest()))


def _steps(mutant: Mutant, differ: frozenset[str]) -> int:
    if any(file in differ for file, _, _ in mutant.places):
        return 0
    return 1 if any(killer.partition("::")[0] in differ for killer in mutant.killers) else 2
