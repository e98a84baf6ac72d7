"""Corrupted requests and replies at their callee, in this process: what is executed and answered, and the receipts."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from faults.inject.call.delivery import deliver
from faults.inject.call.envelope import Envelope
from faults.inject.call.replies import completed
from faults.ledger import ledger
from faults.plan import Fault

SITE = "shop:add"

pytestmark = pytest.mark.usefixtures("callee")


def envelope(side: str, how: str, *, later: bool = False, seed: int = 0) -> Envelope:
    fault = {0: Fault(kind="Corrupt", site=SITE, nth=2, side=side, change=how)}
    return Envelope(fault, "a", SITE, later, {SITE: 2}, {}, seed)


def add(x: Any, y: Any) -> Any:
    return {"sum": x + y}


def add_later(x: Any, y: Any) -> Any:
    return completed(x).then(lambda done: {"sum": done.value() + y})


def events(folder: Path) -> list[str]:
    return [each.event for each in ledger.read(folder).events][1:]


def digest_of(values: list[float]) -> str:
    return hashlib.sha256(torch.tensor(values).numpy().tobytes()).hexdigest()[:16]


def answered(found: Any) -> list[float]:
    value = found.wait() if isinstance(found, torch._C.Future) else found
    return value["sum"].tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize(("side", "wanted"), [("request", [10.0, 20.0]), ("reply", [0.0, 0.0])])
def test_the_receipt_tells_what_was_delivered(tmp_path: Path, side: str, wanted: list[float], later: bool) -> None:
    x, y = torch.tensor([1.0, 2.0]), 10 * torch.tensor([1.0, 2.0])
    seed = 0 if side == "reply" else next(s for s in range(9) if _position(x, y, s) == 0)
    function = add_later if later else add
    assert answered(deliver(envelope(side, "zeros", later=later, seed=seed), function, (x, y), {})) == wanted
    assert x.tolist() == [1.0, 2.0]
    assert y.tolist() == [10.0, 20.0]
    done = ["executing", "executed"]
    fault = ["fired", "effective"]
    timeline = ledger.read(tmp_path)
    assert [e.event for e in timeline.events][-4:] == ([*fault, *done] if side == "request" else [*done, *fault])
    fired, effective = timeline.of("fired")[-1].details, timeline.of("effective")[-1].details
    old = [1.0, 2.0] if side == "request" else [11.0, 22.0]
    assert fired["tensor"] == 0
    assert fired["shape"] == [2]
    assert fired["dtype"] == "float32"
    assert fired["changed"] == 2
    assert fired["element"] == [0]
    assert fired["old"] == str(old[0])
    assert fired["new"] == "0.0"
    assert effective["digest"] == digest_of([0.0, 0.0])
    assert effective["instead_of"] == digest_of(old)


def _position(x: torch.Tensor, y: torch.Tensor, seed: int) -> int:
    """Return which of the two arguments a seed changes, as the result shows."""
    found = answered(deliver(envelope("request", "zeros", seed=seed), add, (x, y), {}))
    return {10.0: 0, 1.0: 1}[found[0]]


def test_the_same_seed_changes_the_same_bit_and_others_differ() -> None:
    x = torch.zeros(1000)
    found = [answered(deliver(envelope("request", "bit", seed=s), add, (x, 0), {})) for s in (1, 1, 2)]
    assert found[0] == found[1] != found[2]


def listed(x: Any) -> list[Any]:
    return [x]


def test_a_leaf_that_wants_gradients_arrives_as_a_leaf() -> None:
    leaf = torch.ones(2, requires_grad=True)
    (kept,) = deliver(envelope("request", "zeros"), listed, (leaf,), {})
    assert kept.is_leaf
    assert kept.requires_grad
    assert kept.tolist() == [0.0, 0.0]
    assert leaf.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("side", ["request", "reply"])
@pytest.mark.parametrize("later", [False, True])
def test_zeros_over_zeros_fire_without_an_effect(tmp_path: Path, side: str, later: bool) -> None:
    zeros = (torch.zeros(2), 0)
    answered(deliver(envelope(side, "zeros", later=later), add_later if later else add, zeros, {}))
    assert [each for each in events(tmp_path) if each != "executing"] in (["fired", "executed"], ["executed", "fired"])
    assert ledger.read(tmp_path).of("fired")[0].details["changed"] == 0


@pytest.mark.parametrize(
    ("side", "how", "args", "why"),
    [
        ("request", "bit", (1, 2), "the request holds nothing to hit: wanted a tensor with elements, got no tensor"),
        (
            "reply",
            "nan",
            (torch.tensor([1]), 2),
            r"the reply holds nothing to hit: wanted a floating-point .* int64\[1\]",
        ),
    ],
)
def test_a_message_without_such_a_tensor_passes_and_says_why(
    tmp_path: Path, side: str, how: str, args: tuple[Any, ...], why: str
) -> None:
    wanted = add(*args)
    assert deliver(envelope(side, how), add, args, {}) == wanted
    assert sorted(events(tmp_path)) == ["executed", "executing", "failed"]
    (failed,) = ledger.read(tmp_path).of("failed")
    assert re.match(why, failed.details["why"]), failed.details


def refuse(x: Any) -> Any:
    raise ValueError("no sale")


def refuse_later(x: Any) -> Any:
    return completed(x).then(refuse)


def test_an_error_stays_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^no sale$"):
        deliver(envelope("reply", "bit"), refuse, (torch.ones(1),), {})
    assert ledger.read(tmp_path).of("failed")[0].details["why"] == "the reply holds no tensor: the function raised"
    with pytest.raises(RuntimeError, match="no sale"):
        deliver(envelope("reply", "bit", later=True), refuse_later, (torch.ones(1),), {}).wait()
    assert ledger.read(tmp_path).of("fired") == []


def test_a_reply_that_cannot_be_pickled_is_left_to_rpc(tmp_path: Path) -> None:
    made = deliver(envelope("reply", "bit"), lambda: lambda: 1, (), {})
    assert made() == 1
    assert ledger.read(tmp_path).of("failed")[0].details["why"].startswith("the reply cannot be pickled: ")
