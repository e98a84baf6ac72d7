"""Sites of messages that torch sends by itself, which a plan names as if they were functions. Imports no torch.

A function of a program cannot have these names: its module would have to be called ``torch``, as the one that it needs
for RPC, and torch has no function of these names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from faults.plan.fields import allowed_fields, words_of

# `RRef.to_here()` at another role than the owner: the request for the value, and the value.
TO_HERE = "torch:to_here"
# A gradient that distributed autograd sends back to the role from which a tensor has come.
BACKWARD = "torch:backward"
ENGINE_SITES = (TO_HERE, BACKWARD)


def refusal(kind: str, given: Mapping[str, Any]) -> str | None:
    """Say in one line why a fault of this kind, with these fields, cannot hit its site; None if it can."""
    site, side = given.get("site"), given.get("side")
    if site == TO_HERE and kind == "Corrupt" and side == "request":
        return f"{kind} at {site} wants 'side' 'reply', got 'request', which holds no tensor"
    if site == TO_HERE and side == "flight":
        return f"{kind} at {site} wants 'side' 'request' or 'reply', got 'flight', which needs a future that fails"
    if site != BACKWARD:
        return None
    if kind not in ("Delay", "Corrupt"):
        return (
            f"{kind} cannot hit {site}: torch sends gradients itself, and Python sees one only before it leaves; "
            f"wanted Delay or Corrupt, or a fault of a process or a network with at=call:{site}#N@ROLE"
        )
    if side == "reply":
        return f"{kind} at {site} wants 'side' 'request', got 'reply', which is empty and never reaches Python"
    return None


def sides_of(kind: str, site: str) -> list[str | None]:
    """Return the sides of a site that a fault of this kind can hit; [None] if the kind has no sides, [] if none."""
    sides = words_of(kind, "side") if "side" in allowed_fields(kind, "call") else [None]
    return [side for side in sides if refusal(kind, {"site": site, "side": side}) is None]
