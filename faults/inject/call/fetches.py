"""Count and record every fetch of an RRef's value, and hand it to `delivery` if a fault of the plan hits it.

torch sends the messages of `RRef.to_here()` itself. A fetch that is hit travels as a call of `value_of` instead, which
the owner executes; the others travel as usual. A fetch by the owner sends nothing, and does not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch.distributed.rpc import PyRRef  # type: ignore[attr-defined]
from torch.distributed.rpc.internal import PythonUDF

from faults.inject.call.delivery import deliver
from faults.inject.call.envelope import Envelope
from faults.plan.engine_sites import TO_HERE

if TYPE_CHECKING:
    from faults.inject.call.calls import Calls

_RRef: Any = PyRRef


def value_of(rref: Any) -> Any:
    """Return the value of an RRef, at its owner. It blocks its RPC thread until the value is there."""
    return rref.local_value()


class Fetches:
    """The fetches of one role, in its process."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def install(self) -> Callable[[], None]:
        """Replace `to_here` of all RRefs, and return a function that puts it back."""
        original = _RRef.to_here

        def to_here(rref: Any, timeout: float = -1.0) -> Any:
            return original(rref, timeout) if rref.is_owner() else self._fetch(original, rref, timeout)

        def undo() -> None:
            _RRef.to_here = original

        _RRef.to_here = to_here
        return undo

    def _fetch(self, original: Callable[[Any, float], Any], rref: Any, timeout: float) -> Any:
        calls = self._calls
        with calls.ledger.own_errors():
            numbers, envelope = calls.begin((TO_HERE,), later=False)
            note = {"site": TO_HERE, "nth": numbers[TO_HERE], "to": rref.owner_name(), "via": "to_here"}
            calls.invoked(note, timeout, envelope)
        start = time.monotonic()
        try:
            value = original(rref, timeout) if envelope is None else self._call(envelope, rref, timeout)
        except Exception as error:
            calls.write_failed(note, start, error)
            raise
        calls.ledger.write("ok", **note, seconds=time.monotonic() - start)
        return value

    def _call(self, envelope: Envelope, rref: Any, timeout: float) -> Any:
        call = PythonUDF(deliver, (envelope, value_of, (rref,), {}), {})
        return self._calls.send_directly(rref.owner(), call, timeout, envelope.answers_later).wait()
