"""The fields of faults, of whatever kind: what each means, and the types and limits of its values."""

from __future__ import annotations

import builtins
import re
from collections.abc import Mapping
from typing import Any

from faults.plan import crash_ways
from faults.plan.places import LAST, MOMENTS, ROLE, SITE, Moment, PlanError, shown

# The message types that the faulty agent can hit (docs/messages.md); it passes every other message on.
MESSAGES = (
    "RREF_FORK_REQUEST",
    "RREF_CHILD_ACCEPT",
    "RREF_USER_DELETE",
    "CLEANUP_AUTOGRAD_CONTEXT_REQ",
    "PYTHON_REMOTE_CALL",
    "SCRIPT_REMOTE_CALL",
    "PYTHON_CALL",
    "SCRIPT_CALL",
    "PYTHON_RREF_FETCH_CALL",
    "SCRIPT_RREF_FETCH_CALL",
)

# Field: its meaning. docs/plans.md has a table of these.
FIELDS: Mapping[str, str] = {
    "site": "the function that is called over RPC, as 'module:qualified.name'",
    "message": "a message type of the faulty agent",
    "role": "call: the caller (default: each, by its own count); message: the sender; otherwise: the role that is hit",
    "to": "the callee: only calls to it are counted and hit (default: all roles)",
    "peer": "the role at the other end of the network (default: all roles)",
    "roles": "the callers, in the order in which their calls execute",
    "at": f"the moment, as {MOMENTS}",
    "nth": "the number of the role's call of the site, from 1, or those of several; the default is 1",
    "every": "every call",
    "chance_percent": "each call with this chance, drawn from the plan's seed",
    "lives": "in which lives of a role that is started again: 'every', or a life's number (default: the first it hits)",
    "side": "'request': before the call executes; 'reply': after it has executed, before the caller is answered; "
    "'flight' (Raise only): when it begins to execute",
    "when": "'before' or 'after' the call executes",
    "how": "how the process ends (default: by SIGKILL)",
    "change": "what becomes of a tensor: 'bit': one bit of one element is flipped; 'nan': one element; 'zeros': all "
    "elements",
    "direction": "'out': packets from the role, 'in': packets to it, 'both'",
    "seconds": "how long; Order: how long a call waits for earlier ones; network: until it heals (default: at the end)",
    "percent": "the share of the packets that is dropped",
    "kbit_per_second": "the rate at which the role can send",
    "latency_ms": "how much later the packets that the role sends arrive (milliseconds)",
    "jitter_ms": "how much a packet's latency may differ from latency_ms, either way (milliseconds)",
    "reorder_percent": "the share of the packets that is sent at once, while the others wait for latency_ms",
    "times": "how often each message fails",
    "error": "a built-in exception's name",
    "text": "the exception's text",
}

# The words that a field takes; a kind may have further ones.
WORDS: Mapping[str, tuple[str, ...]] = {
    "side": ("request", "reply"),
    "when": ("before", "after"),
    "change": ("bit", "nan", "zeros"),
    "direction": ("out", "in", "both"),
    "message": MESSAGES,
}
# Lowest (exclusive where 0.0), highest. The lowest's type is the field's.
_NUMBERS: Mapping[str, tuple[int | float, int | float]] = {
    "nth": (1, LAST),
    "times": (1, 10**6),
    "kbit_per_second": (1, 10**8),
    "latency_ms": (0.0, 100_000.0),  # tc keeps a time in 32 bits of 64 ns: at most 274 s
    "jitter_ms": (0.0, 2_000.0),  # the kernel draws it in 32 bits of nanoseconds: at most 2.1 s
    "reorder_percent": (0.0, 50.0),  # of 100 % no packet would be late
    "seconds": (0.0, 1e6),
    "percent": (0.0, 100.0),
    "chance_percent": (0.0, 100.0),
}
_OR_SEVERAL = ", or the first and the last of several, such as '1-3'"
_RANGE = re.compile(r"([1-9][0-9]{0,9})-([1-9][0-9]{0,9})")
_PATTERNS = {
    **dict.fromkeys(("role", "to", "peer"), re.compile(ROLE)),
    "site": re.compile(SITE),
    "how": re.compile(crash_ways.FORM),
    "lives": re.compile(r"every|[1-9][0-9]{0,3}"),
    "text": re.compile(r"[ -\[\]-~]{0,200}"),  # torch changes others on their way, and the judge reads 400 characters
}
_WANTED = {
    **dict.fromkeys(("role", "to", "peer"), "a role's name"),
    "site": "'module:qualified.name'",
    "how": crash_ways.WANTED,
    "lives": "'every' or the number of a life, from 1 to 9999",
    "roles": "two or more different roles",
    "at": MOMENTS,
    "every": "true",
    "error": "a built-in exception that can be made from a text",
    "text": "at most 200 printable ASCII characters without a backslash",
}


def type_of(name: str) -> type[int] | type[float] | type[str]:
    """Return the type of a field's values in a text."""
    return type(_NUMBERS[name][0]) if name in _NUMBERS else str


def wanted(name: str, words: tuple[str, ...] = ()) -> str:
    """Describe the values that a field takes. ``words``: those of a field that takes words, with the kind's own."""
    if words:
        return " or ".join(map(repr, words))
    if name not in _NUMBERS:
        return _WANTED[name]
    low, high = _NUMBERS[name]
    if not isinstance(low, int):
        return f"a number above 0, at most {high:.0f}"
    return f"an integer from {low} to {high}{_OR_SEVERAL if name == 'nth' else ''}"


def check_value(what: str, name: str, value: Any, words: tuple[str, ...] = ()) -> Any:
    """Return ``value`` in the form that a fault keeps.

    ``what``: whose field it is, such as the kind; ``words``: as for `wanted`. Raises PlanError, which names the field.
    """
    kept: Any
    if name == "nth" and isinstance(value, str):
        kept = _several(value)
    elif name in _NUMBERS:
        kept = _number(name, value)
    elif name == "roles":
        kept = _roles(value)
    elif name == "every":
        kept = True if value is True else None
    else:
        kept = value if isinstance(value, str) and _fits(name, value, words) else None
    if kept is None:
        raise PlanError(f"{what}: {name!r} must be {wanted(name, words)}, got {shown(value)}")
    return str(Moment.parse(kept)) if name == "at" else kept


def _number(name: str, value: Any) -> int | float | None:
    low, high = _NUMBERS[name]
    if isinstance(low, float) and type(value) is int and 0 <= value <= high:  # a larger integer may fit no float
        value = float(value)
    holds = type(value) is type(low) and low <= value <= high and value > 0  # NaN fails every comparison
    return value if holds else None


def _several(value: str) -> int | str | None:
    """Return ``1-3`` as it is, and ``2-2`` as the number."""
    first, last = (int(each) for each in found.groups()) if (found := _RANGE.fullmatch(value)) else (1, 0)
    return None if not first <= last <= LAST else first if first == last else value


def _roles(value: Any) -> tuple[str, ...] | None:
    names = tuple(value) if isinstance(value, list | tuple) else ()
    are_roles = all(isinstance(each, str) and _PATTERNS["role"].fullmatch(each) for each in names)
    return names if are_roles and len(set(names)) == len(names) >= 2 else None


def _fits(name: str, value: str, words: tuple[str, ...]) -> bool:
    if words:
        return value in words
    if name in _PATTERNS:
        return _PATTERNS[name].fullmatch(value) is not None
    return name != "error" or _can_be_raised(value)


def _can_be_raised(name: str) -> bool:
    """Whether this is a built-in exception that takes only a text; `UnicodeDecodeError` needs more."""
    found = getattr(builtins, name, None)
    if not isinstance(found, type) or not issubclass(found, Exception):
        return False
    try:
        found("")
    except TypeError:
        return False
    return True


# `RRef.to_here()` at another role than the owner: the request for the value, and the value.
TO_HERE = "torch:to_here"
# A gradient that distributed autograd sends back to the role from which a tensor has come.
BACKWARD = "torch:backward"
# Both, with the reason why few kinds can hit one.
ENGINE_SITES: Mapping[str, str] = {
    TO_HERE: "torch fetches the value itself",
    BACKWARD: "torch sends gradients itself, and Python sees one only before it leaves",
}
