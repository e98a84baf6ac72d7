"""Decide whether a program may have ended by an error of its own because it gave up a call that failed by the plan.

A loop that asks three times, and then raises ``ShopError("no answer")``, names no cause. The ledgers do not distinguish
it from a program that has recovered from the lost call, and has then found a mistake of its own. So both are unknown. A
mistake in the code (`KeyError`, an `assert`) never counts as giving up.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence

from faults.ledger.ledger import Event
from faults.ledger.record import Run
from faults.plan.site import INTERNAL
from faults.tracebacks.error_chain import Piece, from_json
from faults.verdict.error_origin import excused

# Built-in types that say nothing about what is wrong.
_PLAIN = ("Exception", "RuntimeError")


def may_have_given_up(run: Run, causes: Sequence[Piece], roles: Sequence[str], process: int = 0) -> bool:
    """Whether the program raised this error by ``raise``, and the last call of one of the roles failed by the plan."""
    return is_stated(causes) and any(_has_lost(run, role, process, -math.inf, math.inf) for role in roles)


def is_stated(causes: Sequence[Piece]) -> bool:
    """Whether the program raised this error by ``raise``, and it is no mistake in the code."""
    own = causes[0]
    known = next((base for base in own.bases if hasattr(builtins, base)), _PLAIN[0])
    return own.raised and known in _PLAIN


def _has_lost(run: Run, role: str, process: int, since: float, until: float) -> bool:
    """Whether the last call that the role made between these times failed by the plan.

    If it failed by an error that its callee raised by ``raise``, the callee's own last call meanwhile decides, because
    an error that came over RPC may not tell which error the callee was handling.
    """
    last = _last_call(run, role, process, since, until)
    if last is None:
        return False
    begun, ended = last
    causes = from_json(ended.details.get("causes"))  # none if the call succeeded
    if not causes or excused(run, causes, ended.time):
        return bool(causes)
    return is_stated(causes) and _has_lost(run, str(ended.details.get("to")), 0, begun.time, ended.time)


def _last_call(run: Run, role: str, process: int, since: float, until: float) -> tuple[Event, Event] | None:
    """Of the calls that the role began between these times, return the beginning and the end of the one that ended
    last. Calls that torch makes by itself do not count."""
    begun: dict[tuple[object, ...], Event] = {}
    last = None
    for event in run.timeline.of("invoke", "ok", "fail", "info"):
        call = event.process, event.call
        if not event.may_be_of(role, process) or str(event.details.get("site")).startswith(INTERNAL):
            continue
        if event.event == "invoke" and since < event.time < until:
            begun[call] = event
        elif event.event != "invoke" and call in begun:
            last = begun.pop(call), event
    return last
