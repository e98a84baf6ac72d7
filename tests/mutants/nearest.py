"""Choose the mutants that a change concerns, the nearest to it first."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from hashlib import sha256

from tests.mutants.mutant import Mutant
from tests.tiers.changes import changed, distance, git, passed, tree


def nearest(mutants: Sequence[Mutant]) -> list[Mutant]:
    """Return the mutants whose file, killers, or what these import have changed since all of them were killed.

    All of them where that cannot be told. Those that are equally near stand in an order that the commit's tree decides.
    """
    seed, differ = tree(), changed()
    steps = {each.name: 0 if differ is None else _steps(each, differ) for each in mutants}
    concerned = [each for each in mutants if steps[each.name] is not None]
    return sorted(concerned, key=lambda each: (steps[each.name], sha256(f"{seed} {each.name}".encode()).digest()))


def _steps(mutant: Mutant, differ: frozenset[str]) -> int | None:
    """Count the steps from a mutant to the nearest change: 0 for its own file, or if it is new; 1 for its killers'."""
    if any(file in differ for file, _, _ in mutant.places) or _is_new(mutant):
        return 0
    steps = distance([killer.partition("::")[0] for killer in mutant.killers], differ)
    return None if steps is None else steps + 1


def _is_new(mutant: Mutant) -> bool:
    return f'+        "{mutant.name}",' in _new_lines()


@cache
def _new_lines() -> str:
    return git("diff", "--unified=0", passed()["commit"], "--", "tests/mutants") or ""
