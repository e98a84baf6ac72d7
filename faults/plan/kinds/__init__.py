"""The kinds of faults: each is one class, in the file of its place. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from faults.plan.kinds import calls, messages, networks, processes
from faults.plan.kinds.calls import Called, OfCall
from faults.plan.kinds.kind import Kind, Seen
from faults.plan.places import PlanError, shown

__all__ = ["CALLS", "KINDS", "NAMED", "NAMES", "Called", "Kind", "OfCall", "Seen", "check_name", "kind_of"]

CALLS: tuple[OfCall, ...] = calls.KINDS
KINDS: tuple[Kind, ...] = (*CALLS, *messages.KINDS, *processes.KINDS, *networks.KINDS)
NAMES = tuple(dict.fromkeys(kind.name for kind in KINDS))
NAMED = {name: [kind for kind in KINDS if kind.name == name] for name in NAMES}


def check_name(name: object) -> None:
    """Raises PlanError: no kind has this name."""
    if name not in NAMES:
        raise PlanError(f"unknown 'kind' {shown(name)}, wanted one of {', '.join(NAMES)}")


def kind_of(name: str, given: Mapping[str, Any]) -> Kind:
    """Return the kind of a fault with these fields. Raises PlanError: they do not determine its place."""
    check_name(name)
    places = NAMED[name]
    found = places if len(places) == 1 else [kind for kind in places if kind.mark in given]
    if len(found) != 1:
        wanted = " or ".join(repr(kind.mark) for kind in places)
        raise PlanError(f"{name} needs either {wanted}, got {' and '.join(map(repr, given)) or 'nothing'}")
    return found[0]
