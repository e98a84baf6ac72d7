"""Remember each RRef that a Python object of this process refers to: who made it, where this role got and last used it.

Python sees every RRef that Python code makes, sends or receives: torch pickles them by `PyRRef._serialize` and
`_deserialize`. It does not see those that TorchScript functions take or return.
"""

from __future__ import annotations

import itertools
import re
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from torch._C._distributed_rpc import PyRRef
from torch.distributed.rpc.internal import PythonUDF

from faults.inject.call.delivery import deliver
from faults.inject.call.envelope import PROXIES
from faults.ledger.snapshot import Ident
from faults.tracing.user_frames import Line, here, line_of

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

    def place(self) -> tuple[Line, ...] | tuple[Ident, str] | None:
        """Return the lines by which the role got it, or else the method."""
        return self.lines or self.method


class OfThread(threading.local):
    """The RRefs that one thread unpickles, and those that it has pickled, and of which it is not known yet with what
    call they came or go."""

    def __init__(self) -> None:
        self.arrived: list[Known] = []
        self.leaving: list[Ident] = []


def called(call: Any, ident_of: Callable[[Any], Ident | None]) -> tuple[Any, tuple[Ident, str] | None]:
    """Return the function of a call; or of a proxy's call the RRef and the name of the method.

    A helper that calls a method on an object of this role, as the tutorials' ``_call_method``, is not the function that
    was meant. Other helpers may do anything with a function that they get.
    """
    function, args = call.func, call.args
    if function is deliver:  # a fault hits the call
        function, args = args[1:3]
    if id(function) in PROXIES:
        ident = ident_of(args[0])
        return None, None if ident is None else (ident, str(args[1]))
    match args:
        case [FunctionType() | MethodType() as method, PyRRef() as rref, *_] if rref.is_owner():
            function = method
    return function, None


def parts(value: Any, depth: int = 3) -> Iterator[Any]:
    """Yield a value, and what it consists of."""
    yield value
    if depth:
        found = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple | set) else ()
        for part in list(found or getattr(value, "__dict__", {}).values()):
            yield from parts(part, depth - 1)


# How many RRefs that were sent to others are remembered: where they were made, and where they went.
REMEMBERED = 100_000


class RRefs:
    """The RRefs of one process. Thread-safe, because each step is one operation of a dictionary."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self.clear()

    def clear(self) -> None:
        """Forget everything, as when RPC has shut down: another world gives the same ids to other RRefs."""
        self.events = 0
        self._known: dict[int, Known] = {}
        # The values of RRefs that this role owns, by their identity. What cannot be referred to weakly is left out.
        self._values: dict[int, tuple[weakref.ref[Any], Ident]] = {}
        # Where RRefs were made that others may hold.
        self.made: OrderedDict[Ident, tuple[Line, ...]] = OrderedDict()
        # The last event of each place and owner.
        self._last: dict[tuple[tuple[Line, ...] | tuple[Ident, str] | None, str], int] = {}
        self._unplaced: dict[int, Known] = {}
        # To whom RRefs were sent last, and where.
        self.sent: OrderedDict[tuple[Ident, str], Line | None] = OrderedDict()
        self.pickled = self.unpickled = 0
        # The text of an RRef that does not tell its id, as far as this torch is known.
        self.unreadable = ""
        self._thread = OfThread()

    def count(self) -> int:
        """Return the number of an event that happens now."""
        self.events = next(self._numbers)
        return self.events

    # What happens to an RRef

    def get(self, rref: Any, how: str, lines: tuple[Line, ...]) -> Known | None:
        """Remember an object that this role has just got; None if torch does not tell its id."""
        ident = ident_of(rref)
        if ident is None:
            self.unreadable = str(rref)
            return None
        known = Known(rref, ident, how, lines, self.count())
        key = id(rref)
        known.ref = weakref.ref(rref, partial(self._gone, key, known))
        self._known[key] = known
        self._note(known)
        return known

    def _note(self, known: Known) -> None:
        key = known.place(), known.owner
        self._last[key] = max(self._last.get(key, 0), known.got)

    def _gone(self, key: int, known: Known, _: object) -> None:
        """Forget an object that is no more. Where it was made is kept if others may hold the RRef."""
        self.count()
        if self._known.get(key) is known:
            del self._known[key]
        self._unplaced.pop(id(known), None)

    def use(self, rref: Any) -> None:
        """Remember that this role has just used the object."""
        known = self._known.get(id(rref))
        if known is not None:
            known.used = self.count()

    def send(self, rref: Any) -> None:
        """Remember that the object is on its way to another role."""
        self.pickled += 1
        self.use(rref)
        known = self._known.get(id(rref))
        if known is None:
            return
        self._thread.leaving.append(known.ident)
        if known.how == "made":
            _remember(self.made, known.ident, known.lines)

    def pickling(self) -> None:
        """Forget what this thread has pickled before: it was for an answer, or for a call that was not sent."""
        self._thread.leaving.clear()

    def sent_to(self, role: str, lines: tuple[Line, ...]) -> None:
        """Say where the RRefs go that this thread has just pickled."""
        for ident in self._thread.leaving:
            _remember(self.sent, (ident, role), lines[0] if lines else None)

    def value(self, rref: Any, value: Any, look: Callable[[], Any]) -> None:
        """Remember that ``value`` is the value of this RRef, which the role owns.

        ``look``: return what the owner keeps. Of some objects, such as a list of RRefs, torch keeps a copy in C++.
        """
        known, key = self._known.get(id(rref)), id(value)
        found = self._values.get(key)
        if known is None or (found is not None and found[0]() is value):
            return
        try:
            weak = weakref.ref(value, lambda ref: self._forget_value(key, ref))
        except TypeError:  # such as a list
            return
        if look() is value:
            self._values[key] = weak, known.ident

    def _forget_value(self, key: int, ref: object) -> None:
        if key in self._values and self._values[key][0] is ref:
            del self._values[key]

    # What arrives from other roles

    def arrive(self, rref: Any) -> None:
        """Remember an RRef that was just unpickled: by the program's own line, or in a thread of torch."""
        self.unpickled += 1
        lines = here()
        known = self.get(rref, "fetched" if lines else "answer", lines)
        if known is not None:
            self._thread.arrived.append(known)
            if not lines:
                self._unplaced[id(known)] = known

    def arrived_with(self, what: Any) -> None:
        """Say of the RRefs that came with ``what`` that they came together; if it is a call, that they are its
        function's arguments."""
        arrived = self._thread.arrived
        if not arrived:
            return
        together = self.count()
        for known in arrived:
            known.got = known.used = together
            self._note(known)
        if isinstance(what, PythonUDF):
            function, method = called(what, self.ident_of)
            for known in arrived:
                known.method = method
                self._place(known, "argument", line_of(function))
        arrived.clear()

    def answered(self, lines: tuple[Line, ...], future: Any) -> None:
        """Say of the RRefs in the answer of a call where the call was made."""
        if not self._unplaced:
            return
        try:
            value = future.value()
        except Exception:  # the call has failed
            return
        for known in list(self._unplaced.values()):
            rref = None if known.ref is None else known.ref()
            if rref is not None and any(each is rref for each in parts(value)):
                self._place(known, "answer", lines)

    def _place(self, known: Known, how: str, lines: tuple[Line, ...]) -> None:
        self._unplaced.pop(id(known), None)
        known.how, known.lines = how, lines
        self._note(known)

    # What there is. Copies are listed: Python 3.11 may collect garbage at each item, and so forget some.

    def living(self, since: int) -> dict[int, Known]:
        """Return what is known of the objects that live and that this role got after this event, by identity."""
        return {key: each for key, each in self._known.copy().items() if each.got > since}

    def values(self) -> dict[int, tuple[Any, Ident]]:
        """Return the values that live, each with its RRef, by the values' identities."""
        found = [(key, ref(), ident) for key, (ref, ident) in self._values.copy().items()]
        return {key: (value, ident) for key, value, ident in found if value is not None}

    def type_of(self, ident: Ident) -> type | None:
        """Return the type of an RRef's value, if it is known here."""
        found = [ref() for ref, each in list(self._values.values()) if each == ident]
        return type(found[0]) if found and found[0] is not None else None

    def is_idle(self, known: Known) -> bool:
        """Whether this role got another RRef of the same owner at the same place after it had last used this one."""
        place = known.place()
        return place is not None and self._last.get((place, known.owner), 0) > known.used

    def ident_of(self, rref: Any) -> Ident | None:
        """Return the id of an RRef that is known here."""
        known = self._known.get(id(rref))
        return known.ident if known else None


def _remember(where: OrderedDict[Any, Any], key: object, value: object) -> None:
    where.pop(key, None)  # instead of moving it afterwards: another thread may have removed it by then
    where[key] = value
    if len(where) > REMEMBERED:
        where.popitem(last=False)
