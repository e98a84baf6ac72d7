"""Errors of a program that name no cause: it gave up a failed call, or it found a mistake by itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from faults.ledger import Event, Timeline
from faults.ledger.record import End, Run
from faults.plan import Plan
from faults.tracebacks.error_chain import Piece, to_json
from faults.verdict.checks import judge

LATE = Piece(("RuntimeError", "Exception"), "RPCErr:1:RPC ran for more than set timeout (2000 ms)")
REFUSED = Piece(("Unavailable",), "item 1 is unavailable", "shop.py:9", raised=True)
SOLD = Piece(("KeyError", "LookupError", "Exception"), "pear")
GAVE_UP = Piece(("ShopError", "Exception"), "gave up after 3 attempts", "shop.py:7", raised=True)
RETURNED = End("Returned", "returned", 109.0)
GATHER = "torch.distributed.rpc.api:_gather_to_leader"


def call(
    role: str, nth: int, at: float, end: float, *causes: Piece, site: str = "shop:pay", to: str = "b"
) -> list[Event]:
    known = {"site": site, "nth": nth, "to": to}
    how = {"causes": to_json(list(causes)), "error": str(causes[0])} if causes else {}
    return [Event(role, "invoke", at, known, 1), Event(role, "info" if causes else "ok", end, {**known, **how}, 1)]


LOST = call("a", 1, 1.0, 3.0, LATE)
FIRED = Event("b", "fired", 1.5, {"fault": 0, "kind": "Drop", "caller": "a", "site": "shop:pay", "nth": 1}, 2)


def verdict(*events: Event, error: Piece = GAVE_UP, role: str = "a") -> str:
    ups = [Event(each, "up", 0.5, {"workers": ["a", "b"]}, n) for n, each in enumerate("ab", start=1)]
    raised = Event(role, "raised", 8.0, {"error": str(error), "causes": to_json([error])}, 1 if role == "a" else 3)
    every = sorted([*ups, FIRED, *events, raised], key=lambda event: event.time)
    ends = {"a": RETURNED, "b": RETURNED, "+command": End("Exited", "exited with status 1", 109.0)}
    if role == "a":
        ends["a"] = End("Raised", f"raised {error}", 108.0, causes=(error,), process=1)
    plan = Plan.parse("Drop site=shop:pay role=a nth=1 side=request")
    return judge(
        Run("shop", plan, Timeline(tuple(every), {}, ("a", "b"), 100.0), ends, bound=20.0, start=100.0)
    ).verdict


def test_an_error_of_a_role_whose_last_call_was_lost_is_unknown() -> None:
    assert verdict(*LOST) == "unknown"
    assert verdict(*LOST, *call("a", 1, 4.0, 4.1, site=GATHER)) == "unknown"  # a call of torch's own
    assert verdict(*LOST, *call("a", 2, 4.0, 5.0)) == "wrong"  # the program recovered from it
    assert verdict(*call("a", 2, 0.6, 0.9), *LOST, *call("a", 3, 2.0, 2.5)) == "unknown"  # this call ends last
    assert verdict(*LOST, *call("a", 2, 4.0, 5.0, SOLD)) == "wrong"
    other = [replace(event, process=7) for event in call("a", 2, 4.0, 5.0)]
    assert verdict(*LOST, *other) == "unknown"  # a call of another process


@pytest.mark.parametrize(
    ("error", "unknown"),
    [
        (replace(GAVE_UP, bases=("RuntimeError", "Exception")), True),
        (replace(GAVE_UP, bases=("ShopError",)), True),
        (replace(GAVE_UP, raised=False), False),
        (replace(GAVE_UP, bases=("Unbalanced", "ValueError", "Exception")), False),
        (replace(GAVE_UP, bases=("AssertionError", "Exception")), False),
        (replace(GAVE_UP, bases=("NotImplementedError", "RuntimeError", "Exception")), False),
        (SOLD, False),
    ],
    ids=lambda value: "-".join(value.bases) if isinstance(value, Piece) else None,
)
def test_a_mistake_is_wrong_whatever_was_lost(error: Piece, unknown: bool) -> None:
    assert verdict(*LOST, error=error) == ("unknown" if unknown else "wrong")


def test_an_error_of_a_callee_whose_own_last_call_was_lost_is_unknown() -> None:
    """With `from None`, the error that it was handling does not travel."""
    asked = call("a", 1, 1.0, 5.0, REFUSED, site="shop:ask")
    inner = call("b", 1, 1.1, 3.1, LATE, to="c")
    assert verdict(*asked, *inner, error=REFUSED) == "unknown"
    assert (
        verdict(*asked, *call("b", 1, 0.1, 0.9, LATE, to="c"), error=REFUSED) == "wrong"
    )  # it failed in an earlier call
    assert verdict(*asked, error=REFUSED) == "wrong"
    itself = call("a", 2, 1.1, 3.1, LATE, to="c")
    assert verdict(*call("a", 1, 1.0, 5.0, REFUSED, site="shop:ask", to="a"), *itself, error=REFUSED) == "unknown"
    assert verdict(*call("a", 1, 1.0, 5.0, REFUSED, site="shop:ask", to="a"), error=REFUSED) == "wrong"


def test_a_launcher_may_speak_of_a_role_that_returned_after_its_last_call_was_lost() -> None:
    """For example, a worker sends its traceback to the launcher, and leaves."""
    assert verdict(*LOST, role="+command") == "unknown"
    assert verdict(*LOST, role="+command", error=SOLD) == "wrong"
    assert verdict(*LOST, *call("a", 2, 4.0, 5.0), role="+command") == "wrong"
