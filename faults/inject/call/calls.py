"""Calls over RPC, at the caller: counted, written down, and handed to `delivery` where a fault of the plan hits.

Every Python function called by `rpc_sync`, `rpc_async`, `remote` or an RRef's proxy passes three names of
`torch.distributed.rpc.api`, which are replaced here, in this file only: the pickler and the two functions that send.
No function of the program is replaced, so no reference to one can be stale; and what no fault hits travels as ever.
TorchScript functions and torch's own operators travel otherwise, and are not seen.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from torch.distributed.rpc import api
from torch.distributed.rpc.internal import PythonUDF

from faults.inject.announcer import Announcer
from faults.inject.call.called_sites import sites_of
from faults.inject.call.delivery import CalleeState, Envelope, deliver
from faults.inject.call.occurrence import concerns, hits
from faults.ledger.ledger import Ledger
from faults.plan.plan import Plan, PlanError
from faults.tracebacks.certainty import first_line, is_definite
from faults.tracebacks.error_chain import pieces_of, to_json

# How long an ending process waits for a line that another thread writes (seconds): after a fork nobody may write it.
WRITTEN = 1.0

_PICKLER, _SENDERS = "_default_pickler", ("_invoke_rpc_python_udf", "_invoke_remote_python_udf")


def missing() -> str | None:
    """Why this torch's calls cannot be hurt, in one line; None if they can."""
    absent = [name for name in (_PICKLER, "_internal_rpc_pickler", *_SENDERS) if not hasattr(api, name)]
    return f"this torch has no {', '.join(absent)} in {api.__name__}" if absent else None


class _Unpickled:
    """Stands for torch's pickler: keeps the call whole until it is known where it goes."""

    def serialize(self, call: PythonUDF) -> tuple[PythonUDF, tuple[()]]:
        return call, ()


class Calls:
    """One role's, in its process."""

    def __init__(self, plan: Plan, role: str, ledger: Ledger, announcer: Announcer) -> None:
        self.plan, self.role, self.ledger, self.announcer = plan, role, ledger, announcer
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._writing = threading.RLock()
        # Calls whose end is not written down, by the identity of their notes.
        self._pending: dict[int, tuple[dict[str, Any], float, Any]] = {}

    def install(self) -> Callable[[], None]:
        """Replace the names; what is returned puts them back. Raises PlanError where this torch lacks them."""
        reason = missing()
        if reason is not None:
            raise PlanError(reason)
        names = (_PICKLER, "_internal_rpc_pickler", *_SENDERS)  # also the order in which they are put back
        original = {name: getattr(api, name) for name in names}
        self._pickler = original[_PICKLER]
        self._announce_plan()
        CalleeState.open = CalleeState(self.ledger, self.settle)
        # Both: torch's own context manager for another pickler puts the second in the first's place.
        # The senders first: they take what either pickler gives, torch's own do not.
        for name in _SENDERS:
            setattr(api, name, partial(self._send, original[name], "remote" if "remote" in name else "rpc"))
        for name in (_PICKLER, "_internal_rpc_pickler"):
            setattr(api, name, _Unpickled())
        return partial(_restore, original)

    def _announce_plan(self) -> None:
        for number, fault in self.plan.at("call").items():
            if concerns(fault, self.role):
                self.ledger.write("planned", fault=number, kind=fault.kind, text=str(fault))

    def _send(
        self, send: Callable[..., Any], via: str, to: Any, call: Any, tensors: Any, timeout: float, later: bool
    ) -> Any:
        """What the caller's process does with each call, in the thread that makes it."""
        if not isinstance(call, PythonUDF):  # pickled by a pickler of the user's own
            return send(to, call, tensors, timeout, later)
        sites = sites_of(call.func, call.args, call.kwargs)
        numbers = self._count(sites)
        for site in sites:
            self.announcer.announce("call", numbers[site], site)
        site = sites[-1]
        envelope = self._envelope(sites, numbers, later)
        if envelope is not None:
            call, later = PythonUDF(deliver, (envelope, *call), {}), envelope.answers_later
        note = {"site": site, "nth": numbers[site], "to": to.name, "via": via}
        hit = {"faults": list(envelope.faults)} if envelope else {}
        self.ledger.write("invoke", **note, timeout=float(timeout) if timeout >= 0 else default_timeout(), **hit)
        start = time.monotonic()
        try:
            result = send(to, *self._pickler.serialize(call), timeout, later)
        except Exception as error:  # arguments that cannot be pickled, an agent that has shut down
            self._write_failed("fail", note, start, error)
            raise
        future = result._get_future() if hasattr(result, "_get_future") else result
        self._pending[id(note)] = (note, start, future)
        future.add_done_callback(partial(self._ended, id(note)))
        return result

    def _count(self, sites: tuple[str, ...]) -> dict[str, int]:
        with self._lock:
            self._counts.update(sites)
            return {site: self._counts[site] for site in sites}

    def _envelope(self, sites: tuple[str, ...], numbers: dict[str, int], later: bool) -> Envelope | None:
        found = {s: hits(self.plan, self.role, s, numbers[s]) for s in sites}
        faults = {number: fault for each in found.values() for number, fault in each.items()}
        hit = next((s for s in reversed(sites) if found[s]), None)
        if hit is None:
            return None
        return Envelope(dict(sorted(faults.items())), self.role, hit, numbers[hit], later, numbers)

    def settle(self) -> None:
        """Write down how calls ended whose callbacks have not run yet: whoever waits for a call may go on before they
        do, and end the process."""
        if not self._writing.acquire(timeout=WRITTEN):
            return
        try:
            for number, (_, _, future) in list(self._pending.items()):
                if future.done():
                    self._ended(number, future)
        finally:
            self._writing.release()

    def _ended(self, number: int, future: Any) -> None:
        with self._writing:  # a process that ends meanwhile waits until the line is written
            known = self._pending.pop(number, None)
            if known is not None:  # else another thread has written it down
                self._write_ended(future, *known[:2])

    def _write_ended(self, future: Any, note: dict[str, Any], start: float) -> None:
        try:
            future.value()
        except Exception as error:
            self._write_failed("fail" if is_definite(error) else "info", note, start, error)
        else:
            self.ledger.write("ok", **note, seconds=time.monotonic() - start)

    def _write_failed(self, event: str, note: dict[str, Any], start: float, error: Exception) -> None:
        seconds, causes = time.monotonic() - start, to_json(pieces_of(error))
        self.ledger.write(event, **note, seconds=seconds, error=first_line(error), causes=causes)


def default_timeout() -> float:
    """How long a call waits that does not say so itself (seconds; 0: without a limit)."""
    return float(api.get_rpc_timeout())  # type: ignore[attr-defined]


def _restore(original: dict[str, Any]) -> None:
    if CalleeState.open is not None:
        CalleeState.open.later.close(give=True)
    CalleeState.open = None
    for name, value in original.items():
        setattr(api, name, value)
