"""Decide which faults hit a call, and what travels with it from its caller to its callee."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any

import torch
from torch.distributed.rpc import rref_proxy

from faults.plan.places import name_of
from faults.plan.plan import Fault, Plan

_FUNCTIONS = (FunctionType, MethodType)
# The identities of the functions that an RRef's proxy really calls, with (rref, name of the method, args, kwargs).
PROXIES = frozenset(map(id, (rref_proxy._local_invoke, rref_proxy._local_invoke_async_execution)))


def sites_of(function: Callable[..., object], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the sites that this call belongs to, the most specific one last.

    A call through an RRef's proxy belongs to the method's site. If a helper gets a function as an argument, as the
    tutorials' ``_call_method`` does, the call belongs to the helper's site and to the function's.
    """
    if id(function) in PROXIES:
        kind, name = _type_of(args[0]), args[1]
        method: Any = getattr(kind, name, None)  # TorchScript's classes have no `forward`, and no functions
        return (name_of(method) if hasattr(method, "__qualname__") else f"{name_of(kind)}.{name}",)
    site = name_of(function)
    for each in (*args, *kwargs.values()):
        if isinstance(each, _FUNCTIONS):
            handed = name_of(each)
            return (site,) if handed == site else (site, handed)
    return (site,)


def _type_of(rref: Any) -> Any:
    """Return the class of the value that an RRef refers to. Its proxy has just asked the owner for it."""
    found = rref._get_type()
    return found.wait() if isinstance(found, torch._C.Future) else found


def hits(plan: Plan, role: str, site: str, nth: int, to: str | None = None, nth_to: int = 0) -> dict[int, Fault]:
    """Return the faults, by their number in the plan, that hit the ``nth`` call (from 1) of ``site`` by ``role``, which
    is its ``nth_to`` call of this site to the role ``to``."""
    own = {n: fault for n, fault in plan.at("call").items() if fault.site == site and concerns(fault, role)}
    asked = {n: nth if fault.to is None else nth_to for n, fault in own.items() if fault.to in (None, to)}
    return {n: own[n] for n, number in asked.items() if _occurs(plan, n, role, number)}


def concerns(fault: Fault, role: str) -> bool:
    """Whether the fault applies to calls by this role."""
    return role in fault.roles if fault.roles is not None else fault.role in (None, role)


def _occurs(plan: Plan, number: int, role: str, nth: int) -> bool:
    fault = plan.faults[number]
    if fault.chance_percent is not None:
        return chance(plan.seed, number, role, str(fault.site), nth) * 100 < fault.chance_percent
    return fault.every or (fault.numbers is not None and nth in fault.numbers)


def chance(seed: int, fault: int, role: str, site: str, nth: int) -> float:
    """Draw from [0, 1), depending only on the arguments."""
    digest = hashlib.sha256(f"{seed}\0{fault}\0{role}\0{site}\0{nth}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


@dataclass(frozen=True)
class Envelope:
    """The faults that travel with a call. ``asynchronous``: the function answers with a future of its own.

    ``site``: the most specific of its sites that a fault hits; ``counts``: the call's number at each of its sites;
    ``counts_to``: that among the calls to its callee, at each that the plan names; ``seed``: the plan's; ``flight``:
    the key of a call in flight, otherwise empty.
    """

    faults: Mapping[int, Fault]
    caller: str
    site: str
    asynchronous: bool
    counts: Mapping[str, int]
    counts_to: Mapping[str, int]
    seed: int
    flight: str = ""

    @property
    def nth(self) -> int:
        return self.counts[self.site]

    def nth_of(self, fault: Fault) -> int:
        """Return the call's number as a fault counts."""
        return (self.counts if fault.to is None else self.counts_to)[str(fault.site)]

    @property
    def answers_later(self) -> bool:
        """Whether the answer must be a future, so that no RPC thread waits for it, perhaps forever."""
        return self.asynchronous or any(fault.traits.holds_reply(fault) for fault in self.faults.values())
