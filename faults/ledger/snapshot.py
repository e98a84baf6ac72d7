"""What one role held at one moment, as plain data: RRefs with their holders, and autograd contexts. No torch.

The ledger has it as the events ``traced`` (one for each snapshot), ``held``, ``made`` and ``context``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

# torch's counts of what a role keeps for others when nothing is on its way, each with the kind of leak that it is.
COUNTS = {
    "num_owner_rrefs": "rrefs",
    "num_forks": "rrefs",
    "num_pending_users": "rrefs",
    "num_autograd_contexts": "contexts",
}

# An RRef's id: the id of the worker that made it, and that worker's number for it.
Ident = tuple[int, int]

# What keeps a Python object alive: a variable of a function that still runs; a variable of a module, or an attribute of
# a class; the value of an RRef; something that Python does not see.
FUNCTION, GLOBAL, VALUE, UNSEEN = "function", "global", "value", "unseen"


@dataclass(frozen=True)
class Held:
    """RRefs of one owner that a role got at one line, and that one variable holds.

    ``how``: 'made', 'argument', 'answer' or 'fetched'; ``line``: where the role got them, 'file:line in function',
    empty if no line of the program was seen; ``by``: the holder in words; ``root``: `FUNCTION`, `GLOBAL`, `VALUE` or
    `UNSEEN`; ``of``: with `VALUE`, the RRefs whose values hold them; ``idle``: the role got another RRef of this owner
    by the same lines after it had last used these.
    """

    rrefs: tuple[Ident, ...]
    owner: str
    how: str
    line: str
    by: str
    root: str
    of: tuple[Ident, ...] = ()
    idle: bool = False
    stack: tuple[str, ...] = ()


@dataclass(frozen=True)
class Made:
    """RRefs that a role made at one line and sent to others. ``numbers``: the role's own numbers for them."""

    line: str
    numbers: tuple[int, ...]
    stack: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sent:
    """RRefs that a role sent to another one in calls at one line, the last that it sent there."""

    to: str
    line: str
    rrefs: tuple[Ident, ...]


@dataclass(frozen=True)
class Entered:
    """An autograd context that its role has not left. ``abandoned``: nothing can leave it, because the object that
    was entered is gone."""

    number: int
    line: str
    abandoned: bool = False
    stack: tuple[str, ...] = ()


@dataclass(frozen=True)
class Snapshot:
    """What a role held at one moment.

    ``worker``: its id in RPC; ``events``: the number of the last event that it saw; ``pickled``, ``unpickled``: how
    many RRefs it has sent and received. ``sent`` is not in the ledger.
    """

    role: str
    worker: int
    events: int = 0
    pickled: int = 0
    unpickled: int = 0
    held: tuple[Held, ...] = ()
    made: tuple[Made, ...] = ()
    contexts: tuple[Entered, ...] = ()
    sent: tuple[Sent, ...] = ()


_PARTS: Mapping[str, tuple[str, type]] = {
    "held": ("held", Held),
    "made": ("made", Made),
    "context": ("contexts", Entered),
}
TRACED, _OWN = "traced", ("worker", "events", "pickled", "unpickled")


def to_events(snapshot: Snapshot) -> Iterable[tuple[str, dict[str, Any]]]:
    """Yield name and fields of the ledger's events for a snapshot; `TRACED` is the last."""
    for event, (part, _) in _PARTS.items():
        for each in getattr(snapshot, part):
            yield event, asdict(each)
    yield TRACED, {name: getattr(snapshot, name) for name in _OWN}


def from_events(role: str, events: Iterable[tuple[str, Mapping[str, Any]]]) -> Snapshot:
    """Make a snapshot of the events that `to_events` yielded. Raises ValueError: the fields are not its."""
    found: dict[str, list[Any]] = {part: [] for part, _ in _PARTS.values()}
    own: Mapping[str, Any] = {}
    try:
        for event, fields in events:
            if event == TRACED:
                own = fields
            else:
                part, kind = _PARTS[event]
                found[part].append(kind(**{name: _frozen(value) for name, value in fields.items()}))
        parts: dict[str, Any] = {part: tuple(each) for part, each in found.items()}
        return Snapshot(role, **own, **parts)
    except (TypeError, KeyError) as error:
        raise ValueError(f"no snapshot of what {role} holds: {error}") from error


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value
