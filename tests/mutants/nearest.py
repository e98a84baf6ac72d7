"""Put the mutants first that a change concerns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from hashlib import sha256

from tests.mutants.catalog import read
from tests.mutants.mutant import Mutant
from tests.tiers.changes import changed, git, passed, tree


def nearest(mutants: Sequence[Mutant]) -> list[Mutant]:
    """Sort the mutants by what has changed since all of them were killed: their file or they themselves, a file of
    their killers, or neither. Those that are equally near stand in an order that the commit's tree decides."""
    seed, differ = tree(), changed() or frozenset()
    return sorted(mutants, key=lambda each: (_steps(each, differ), sha256(f"{seed} {each.name}".encode()).digest()))


def _steps(mutant: Mutant, differ: frozenset[str]) -> int:
    if any(file in differ for file, _, _ in mutant.places):
        return 0
    if any(file.startswith("tests/mutants/") for file in differ) and mutant not in mutants_before():
        return 0
    return 1 if any(killer.partition("::")[0] in differ for killer in mutant.killers) else 2


@cache
def mutants_before() -> frozenset[Mutant]:
    """Return the mutants of the commit at which all were killed; none where they cannot be had."""
    commit = passed()
    files = git("ls-tree", "--name-only", commit, "tests/mutants/bugs/") or ""
    texts = (git("show", f"{commit}:{file}") or "" for file in files.splitlines())
    return frozenset(mutant for text in texts if text for mutant in read(text))
