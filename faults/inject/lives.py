"""Decide which faults act in a life of a role: a fault happens once in all lives, unless it says ``lives``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faults.ledger.ledger import SUFFIX
from faults.plan.plan import Fault, Plan


@dataclass(frozen=True)
class PlanOfLife(Plan):
    """A plan in one life of one role. ``asleep``: the faults that do not act there."""

    asleep: frozenset[int] = frozenset()

    def at(self, place: str) -> dict[int, Fault]:
        return {number: fault for number, fault in super().at(place).items() if number not in self.asleep}


def in_this_life(plan: Plan, folder: Path, role: str) -> PlanOfLife:
    """Return the plan as it acts in a life of this role that is about to begin.

    The role's ledger tells how many lives it has had, and which faults have hit its calls and come at its moments. A
    fault of every call, or of calls by chance, happens in each life. A network outlives a life, with its faults.
    """
    lives, hit = 1, set[int]()
    for line in _lines(folder / f"{role}{SUFFIX}") if plan.faults else ():
        if line.get("event") == "start":
            lives += 1
        if line.get("event") in ("invoke", "gradient"):
            hit.update(line.get("faults") or ())
        elif line.get("event") == "fired" and plan.faults[line["fault"]].place in ("process", "network"):
            hit.add(line["fault"])
    asleep = {number for number, fault in enumerate(plan.faults) if not _acts(fault, lives, number in hit)}
    return PlanOfLife(plan.faults, plan.seed, frozenset(asleep))


def _acts(fault: Fault, life: int, was_hit: bool) -> bool:
    if fault.lives is not None:
        return fault.lives in ("every", str(life))
    return fault.every or fault.chance_percent is not None or not was_hit


def _lines(ledger: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines that may matter: a role that starts RPC often has a long ledger, and all others wait for it."""
    with suppress(FileNotFoundError), ledger.open("rb") as lines:
        for line in lines:
            if any(word in line for word in (b'"start"', b'"fired"', b'"faults"')):
                with suppress(ValueError):  # of a process that was killed within it
                    yield json.loads(line)
