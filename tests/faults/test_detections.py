"""Which errors name corrupted data, and what a run under a `Corrupt` comes to."""

from __future__ import annotations

from typing import Any

import pytest

from faults.ledger import Event
from faults.ledger.record import End
from faults.tracebacks.error_chain import Piece, to_json
from faults.verdict.checks import judge
from faults.verdict.detections import detects
from tests.faults.test_checks import RETURNED, check, effective, fired, run

CORRUPT = "Corrupt site=shop:pay role=a nth=1 side=reply change=bit"
DELIVERED = (fired(), effective())


@pytest.mark.parametrize(
    ("kind", "text", "wanted"),
    [
        ("ValueError", "checksum of the gradient of trainer1 differs", True),
        ("RuntimeError", "loss is nan at step 3", True),
        ("RuntimeError", "the loss is not finite: inf", True),
        ("ValueError", "gradient is corrupt", True),
        ("OSError", "crc32 mismatch, wanted 7", True),
        ("AssertionError", "hash does not match", True),
        ("ChecksumError", "step 3", True),
        ("GradientCorrupted", "", True),
        ("NonFiniteLoss", "", True),
        ("ValueError", "wanted 3 rows, got 4", None),
        ("AssertionError", "", None),
        ("InfoError", "banana, finance, information, inference", None),
        ("Nanny", "incorruptible", None),
        ("KeyError", "hash table", None),
    ],
)
def test_a_stated_error_names_corrupted_data_or_may_be_any_check(kind: str, text: str, wanted: bool | None) -> None:
    assert detects(Piece((kind, "Exception"), text, "shop.py:3", raised=kind != "AssertionError")) is wanted


@pytest.mark.parametrize(
    ("kind", "text", "place", "wanted"),
    [
        ("RuntimeError", "probability tensor contains either `inf`, `nan` or element < 0", "shop.py:3", True),
        ("ValueError", "found invalid values: tensor([nan, 1.])", "/lib/torch/distributions/distribution.py:7", True),
        ("RuntimeError", "Function 'MulBackward0' returned nan values in its 0th output.", "/torch/a.py:1", True),
        ("IndexError", "index out of range in self", "/torch/nn/functional.py:1", False),
        ("RuntimeError", "mat1 and mat2 shapes cannot be multiplied", "shop.py:3", False),
        ("ValueError", "cannot convert float NaN to integer", "shop.py:3", False),
        ("KeyError", "nan", "shop.py:3", False),
    ],
)
def test_what_fails_by_itself_names_them_only_in_torchs_own_checks(
    kind: str, text: str, place: str, wanted: bool
) -> None:
    bases = (kind, *(["LookupError"] if kind in ("IndexError", "KeyError") else []), "Exception")
    assert detects(Piece(bases, text, place)) is wanted


def ended(*pieces: Piece, time: float = 103.0) -> End:
    return End("Raised", f"raised {pieces[0]}", time, pieces[0].bases, pieces)


CHECKED = Piece(("ValueError", "Exception"), "checksum differs", "shop.py:3", raised=True)
STATED = Piece(("ValueError", "Exception"), "wanted 3 rows", "shop.py:3", raised=True)
BROKEN = Piece(("IndexError", "LookupError", "Exception"), "index out of range", "shop.py:3")


@pytest.mark.parametrize(
    ("pieces", "verdict", "status"),
    [
        ([CHECKED], "detected", 0),
        ([STATED, CHECKED], "detected", 0),
        ([STATED], "unknown", 3),
        ([BROKEN], "wrong", 1),
    ],
)
def test_an_error_under_a_corrupt_is_judged_by_what_it_names(pieces: list[Piece], verdict: str, status: int) -> None:
    judgement = judge(run(CORRUPT, *DELIVERED, ends={"a": ended(*pieces), "b": RETURNED}))
    assert (judgement.verdict, judgement.status) == (verdict, status), str(judgement)


def test_nothing_is_detected_before_it_is_delivered_nor_after_another_fault() -> None:
    early = ended(CHECKED, time=100.5)
    assert judge(run(CORRUPT, *DELIVERED, ends={"a": early, "b": RETURNED})).verdict == "wrong"
    plan = "Raise site=shop:pay role=a nth=1 side=reply error=ValueError text='checksum differs'"
    assert judge(run(plan, fired(), ends={"a": ended(CHECKED), "b": RETURNED})).verdict == "clean error"


def failed(*pieces: Piece, time: float = 3.0) -> Event:
    details: dict[str, Any] = {"site": "shop:pay", "nth": 1, "causes": to_json(list(pieces))}
    return Event("a", "fail", time, details)


@pytest.mark.parametrize("trace", ["equal", None])
@pytest.mark.parametrize(
    ("events", "known"),
    [
        ((), False),
        ((failed(CHECKED),), True),
        ((failed(STATED),), False),
        ((failed(CHECKED, time=1.0),), False),
        ((Event("a", "warned", 3.0, {"text": "checksum differs, asking again"}),), True),
        ((Event("a", "warned", 1.5, {"text": "checksum differs, asking again"}),), False),
    ],
)
def test_a_run_that_returns_has_to_say_that_it_noticed(
    trace: str | None, events: tuple[Event, ...], known: bool
) -> None:
    """Otherwise nothing tells whether the program repaired the tensor, did not use it, or has a wrong result."""
    found = run(CORRUPT, *DELIVERED, *events, trace=trace)
    assert judge(found).verdict == ((trace or "returned") if known else "unknown")
    assert ("a corrupted tensor was delivered without any error" in check("trace", found).text) is not known


def test_a_wrong_trace_stays_wrong_and_a_corruption_without_effect_does_not_pass() -> None:
    assert judge(run(CORRUPT, *DELIVERED, trace="wrong")).verdict == "wrong"
    same = Event("b", "fired", 1.0, {**fired().details, "old": "0.0"})
    judgement = judge(run(CORRUPT, same, trace="equal"))
    assert judgement.verdict == "not fired"
    assert "fired, but nothing was changed: the tensor has these bits already (0.0)" in str(judgement)


def test_a_call_without_a_tensor_is_told() -> None:
    why = {"fault": 0, "why": "the reply holds nothing to hit: wanted a tensor with elements, got no tensor"}
    judgement = judge(run(CORRUPT, Event("b", "failed", 1.0, why)))
    assert judgement.verdict == "not fired"
    assert f"fired 0 times, wanted 1 ({why['why']})" in str(judgement)


def test_of_every_call_those_without_a_tensor_are_not_missed() -> None:
    """Of three calls that the fault hit, one had no tensor."""
    plan = CORRUPT.replace("nth=1", "every=true")
    calls = [Event("a", "invoke", 0.5, {"site": "shop:pay", "nth": n, "faults": [0]}) for n in (1, 2, 3)]
    without = Event("b", "failed", 1.0, {"fault": 0, "why": "the reply holds no tensor: the function raised"})
    assert check("fired", run(plan, *calls, *DELIVERED, fired(), without)).holds
    assert not check("fired", run(plan, *calls, *DELIVERED, fired())).holds
