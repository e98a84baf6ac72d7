"""The fields of a fault: its kinds, the places where each kind exists, and the types and limits of the fields."""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterable, Mapping
from typing import Any

from faults.plan import crash_ways
from faults.plan.places import LAST, ROLE, SITE, Moment, PlanError, shown

# What a `Slow` can do to packets, of which it needs one.
_WAYS = ("kbit_per_second", "latency_ms")
# What netem does only to packets that it delays.
_OF_LATENCY = ("jitter_ms", "reorder_percent")


def refusal_of_slow(kind: str, given: Mapping[str, Any]) -> str | None:
    """Say in one line why a fault of this kind cannot have these fields; None if it can."""
    if kind != "Slow":
        return None
    alone = [name for name in _OF_LATENCY if name in given and "latency_ms" not in given]
    if alone:
        return f"{kind}: {alone[0]!r} needs 'latency_ms', got {', '.join(given)}"
    if not any(name in given for name in _WAYS):
        return f"{kind} needs {' or '.join(map(repr, _WAYS))}, got {', '.join(given)}"
    latency, jitter = given.get("latency_ms"), given.get("jitter_ms")
    if latency is not None and jitter is not None and jitter > latency:
        return f"{kind}: 'jitter_ms' must be at most 'latency_ms', got {jitter!r} and {latency!r}"
    return None


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

_OCCURRENCE = ("nth", "every", "chance_percent")
_CALL = ("site", "role", *_OCCURRENCE, "lives")
# What a `Slow` does to packets.
LINE = ("kbit_per_second", "latency_ms", "jitter_ms", "reorder_percent")

# (kind, place): (required fields, further fields).
SHAPES: Mapping[tuple[str, str], tuple[tuple[str, ...], tuple[str, ...]]] = {
    ("Delay", "call"): (("site", "side", "seconds"), _CALL),
    ("Raise", "call"): (("site", "side"), (*_CALL, "error", "text")),
    ("Drop", "call"): (("site", "side"), _CALL),
    ("Duplicate", "call"): (("site",), _CALL),
    ("Crash", "call"): (("site", "when"), (*_CALL, "how")),
    ("Order", "call"): (("site", "roles", "seconds"), ("nth", "every", "lives")),
    ("Corrupt", "call"): (("site", "side", "change"), _CALL),
    ("Delay", "message"): (("message", "seconds"), ("role",)),
    ("Drop", "message"): (("message", "times"), ("role",)),
    ("Crash", "process"): (("role", "at"), ("how", "lives")),
    ("Pause", "process"): (("role", "at", "seconds"), ("lives",)),
    ("Hold", "process"): (("role", "at", "seconds"), ("lives",)),
    ("Partition", "network"): (("role", "direction"), ("peer", "at", "seconds")),
    ("Reset", "network"): (("role",), ("peer", "at", "seconds")),
    ("Lossy", "network"): (("role", "direction", "percent"), ("peer", "at", "seconds")),
    ("Slow", "network"): (("role",), (*LINE, "at", "seconds")),
}
KINDS = tuple(dict.fromkeys(kind for kind, _ in SHAPES))

# Field: its meaning. docs/plans.md has a table of these.
FIELDS: Mapping[str, str] = {
    "site": "the function that is called over RPC, as 'module:qualified.name'",
    "message": "a message type of the faulty agent",
    "role": "call: the caller (default: each, by its own count); message: the sender; otherwise: the role that is hit",
    "peer": "the role at the other end of the network (default: all roles)",
    "roles": "the callers, in the order in which their calls execute",
    "at": "the moment, as 'up@ROLE', 'step:N@ROLE', 'call:SITE#N@ROLE' or 'shutdown@ROLE'",
    "nth": "the number of the role's call of the site, from 1; the default is 1",
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

_WORDS = {
    "side": ("request", "reply"),
    "when": ("before", "after"),
    "change": ("bit", "nan", "zeros"),
    "direction": ("out", "in", "both"),
    "message": MESSAGES,
}
# A kind's further words.
_MORE_WORDS = {
    ("Raise", "side"): ("flight",),
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
_PATTERNS = {
    "role": re.compile(ROLE),
    "peer": re.compile(ROLE),
    "site": re.compile(SITE),
    "how": re.compile(crash_ways.FORM),
    "lives": re.compile(r"every|[1-9]\d{0,3}"),
}
_WANTED = {
    "role": "a role's name",
    "peer": "a role's name",
    "site": "'module:qualified.name'",
    "how": crash_ways.WANTED,
    "lives": "'every' or the number of a life, from 1 to 9999",
    "roles": "two or more different roles",
    "at": "'up@ROLE', 'step:N@ROLE', 'call:SITE#N@ROLE' or 'shutdown@ROLE'",
    "every": "true",
    "error": "a built-in exception that can be made from a text",
    "text": "printable text on one line",
}


def place_of(kind: str, given: Mapping[str, Any]) -> str:
    """Return the place of a fault with these fields. Raises PlanError: they do not determine it."""
    places = [place for each, place in SHAPES if each == kind]
    if len(places) == 1:
        return places[0]
    marks = {"call": "site", "message": "message", "process": "at"}
    found = [place for place in places if marks[place] in given]
    if len(found) != 1:
        wanted = " or ".join(repr(marks[place]) for place in places)
        raise PlanError(f"{kind} needs either {wanted}, got {' and '.join(map(repr, given)) or 'nothing'}")
    return found[0]


def required_fields(kind: str, place: str) -> tuple[str, ...]:
    return SHAPES[kind, place][0]


def allowed_fields(kind: str, place: str) -> tuple[str, ...]:
    required, others = SHAPES[kind, place]
    return tuple(dict.fromkeys((*required, *others)))


def wanted(name: str) -> str:
    """Describe the values that a field takes, for the manual."""
    if name in _WORDS:
        more = [f"; {kind} also {_either(words)}" for (kind, each), words in _MORE_WORDS.items() if each == name]
        return "".join([_either(_WORDS[name]), *more])
    if name not in _NUMBERS:
        return _WANTED[name]
    low, high = _NUMBERS[name]
    return f"an integer from {low} to {high}" if isinstance(low, int) else f"a number above 0, at most {high:.0f}"


def words_of(kind: str, name: str) -> tuple[str, ...]:
    """Return the words that this field of a fault of this kind takes; none if it takes other values."""
    return (*_WORDS.get(name, ()), *_MORE_WORDS.get((kind, name), ()))


def _wanted_of(kind: str, name: str) -> str:
    return _either(words_of(kind, name)) or wanted(name)


def _either(words: Iterable[str]) -> str:
    return " or ".join(map(repr, words))


def check_value(kind: str, name: str, value: Any) -> Any:
    """Return ``value`` in the form that a fault keeps. Raises PlanError, which names the field."""
    kept: Any
    if name in _NUMBERS:
        kept = _number(name, value)
    elif name == "roles":
        kept = _roles(value)
    elif name == "every":
        kept = True if value is True else None
    else:
        kept = value if isinstance(value, str) and _fits(kind, name, value) else None
    if kept is None:
        raise PlanError(f"{kind}: {name!r} must be {_wanted_of(kind, name)}, got {shown(value)}")
    return str(Moment.parse(kept)) if name == "at" else kept


def _number(name: str, value: Any) -> int | float | None:
    low, high = _NUMBERS[name]
    if isinstance(low, float) and type(value) is int and 0 <= value <= high:  # a larger integer may fit no float
        value = float(value)
    holds = type(value) is type(low) and low <= value <= high and value > 0  # NaN fails every comparison
    return value if holds else None


def _roles(value: Any) -> tuple[str, ...] | None:
    names = tuple(value) if isinstance(value, list | tuple) else ()
    if len(names) < 2 or not all(isinstance(each, str) for each in names) or len(set(names)) < len(names):
        return None
    return names if all(_PATTERNS["role"].fullmatch(each) for each in names) else None


def _fits(kind: str, name: str, value: str) -> bool:
    if name in _WORDS:
        return value in words_of(kind, name)
    if name in _PATTERNS:
        return _PATTERNS[name].fullmatch(value) is not None
    if name == "error":
        return _can_be_raised(value)
    return name != "text" or value.isprintable()  # no surrogates, no control characters


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
ENGINE_SITES = (TO_HERE, BACKWARD)


def refusal_at_engine_site(kind: str, given: Mapping[str, Any]) -> str | None:
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
    return [side for side in sides if refusal_at_engine_site(kind, {"site": site, "side": side}) is None]
