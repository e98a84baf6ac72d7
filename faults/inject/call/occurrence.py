"""Decide which calls a fault hits, at the caller by its own count, so that no thread's timing can change it."""

from __future__ import annotations

import hashlib

from faults.plan.plan import Fault, Plan


def hits(plan: Plan, role: str, site: str, nth: int) -> dict[int, Fault]:
    """Return the faults, by their number in the plan, that hit the ``nth`` call (from 1) of ``site`` by ``role``."""
    faults = plan.at("call").items()
    return {n: f for n, f in faults if f.site == site and concerns(f, role) and _occurs(plan, n, role, nth)}


def watches(plan: Plan, role: str, site: str, nth: int) -> dict[int, Fault]:
    """Return the faults that exchange a tensor of a later call of ``site`` by ``role`` for one of its ``nth`` call."""
    faults = plan.at("call").items()
    kept = {n: f for n, f in faults if f.site == site and f.change == "other" and concerns(f, role)}
    return {n: f for n, f in kept.items() if f.nth is None or nth < f.nth}


def concerns(fault: Fault, role: str) -> bool:
    """Whether the fault applies to calls by this role."""
    return role in fault.callers if fault.roles is not None else fault.role in (None, role)


def _occurs(plan: Plan, number: int, role: str, nth: int) -> bool:
    fault = plan.faults[number]
    if fault.numbered:
        return f"{role}#{nth}" in (fault.roles or ())
    if fault.chance_percent is not None:
        return chance(plan.seed, number, role, str(fault.site), nth) * 100 < fault.chance_percent
    return fault.every or fault.nth == nth


def chance(seed: int, fault: int, role: str, site: str, nth: int) -> float:
    """Draw from [0, 1), depending only on the arguments."""
    digest = hashlib.sha256(f"{seed}\0{fault}\0{role}\0{site}\0{nth}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64
