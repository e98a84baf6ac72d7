"""Choose the mutants that a change concerns, the nearest to it first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from hashlib import sha256

from tests.mutants.catalog import read
from tests.mutants.mutant import Mutant
from tests.tiers.changes import OF_ALL, changed, distance, git, passed, tree


def nearest(mutants: Sequence[Mutant]) -> list[Mutant]:
    """Return the mutants whose file, killers, or what these import or name have changed since all of them were killed.

    All of them where that cannot be told, or where something has changed on which every test depends. Those that are
    equally near stand in an order that the commit's tree decides.
    """
    seed, differ = tree(), changed()
    steps = {each.name: 0.0 if differ is None else _steps(each, differ) for each in mutants}
    concerned = [each for each in mutants if steps[each.name] < math.inf or (differ and differ & OF_ALL)]
    return sorted(concerned, key=lambda each: (steps[each.name], sha256(f"{seed} {each.name}".encode()).digest()))


def _steps(mutant: Mutant, differ: frozenset[str]) -> float:
    """Count the steps from a mutant to the nearest change: 0 for its own file, or if the mutant itself is another one;
    1 for its killers'; infinite if none leads there."""
    if any(file in differ for file, _, _ in mutant.places):
        return 0
    if any(file.startswith("tests/mutants/") for file in differ) and mutant not in mutants_before():
        return 0
    steps = distance([killer.partition("::")[0] for killer in mutant.killers], differ)
    return math.inf if steps is None else steps + 1


@cache
def mutants_before() -> frozenset[Mutant]:
    """Return the mutants of the commit at which all were killed; none where they cannot be had."""
    commit = passed()["commit"]
    files = git("ls-tree", "--name-only", commit, "tests/mutants/bugs/") or ""
    texts = (git("show", f"{commit}:{file}") or "" for file in files.splitlines())
    return frozenset(mutant for text in texts if text for mutant in read(text))
