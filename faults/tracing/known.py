"""What is known of one Python object that refers to an RRef."""

from __future__ import annotations

import re
import weakref
from typing import Any

from faults.ledger.stock import Ident
from faults.tracing.user_frames import Line

_ID = re.compile(r"created_on=(\d+), local_id=(\d+)")


def ident_of(rref: Any) -> Ident | None:
    """Return an RRef's id, which torch tells in its text alone; None if that has another form."""
    found = _ID.search(str(rref))
    return None if found is None else (int(found[1]), int(found[2]))


class Known:
    """One Python object that refers to an RRef. ``got``, ``used``: numbers of events; ``method``: the RRef and the name
    of its value's method that got it as an argument."""

    __slots__ = ("got", "how", "ident", "lines", "method", "owner", "ref", "used")

    def __init__(self, rref: Any, ident: Ident, how: str, lines: tuple[Line, ...], number: int) -> None:
        self.ref: weakref.ref[Any] | None = None
        self.ident, self.owner = ident, rref.owner_name()
        self.how, self.lines, self.got, self.used = how, lines, number, number
        self.method: tuple[Ident, str] | None = None

    def lives(self) -> bool:
        """Whether the object is still there."""
        return self.ref is not None and self.ref() is not None
