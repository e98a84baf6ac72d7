"""A call with faults at its callee, in this process: what executes when, and the answer. Over RPC: test_calls.py."""

from __future__ import annotations

import hashlib
import itertools
import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.futures import Future

from faults.inject.call import delivery
from faults.inject.call.delivery import CalleeState, FaultError, deliver
from faults.inject.call.envelope import Envelope
from faults.inject.call.replies import completed
from faults.ledger import ledger
from faults.plan import Plan, kinds
from faults.plan.kinds import OfCall

SITE = "shop:pay"

pytestmark = pytest.mark.usefixtures("callee")


def envelope(words: str, asynchronous: bool = False, caller: str = "a", seed: int = 0) -> Envelope:
    """Make an envelope of the faults in ``words``, all at the site."""
    plan = Plan.parse("; ".join(f"{each} site={SITE}" for each in words.split("; ")))
    return Envelope(dict(enumerate(plan.faults)), caller, SITE, asynchronous, {SITE: 1}, {}, seed)


class Shop:
    def __init__(self, error: Exception | None = None) -> None:
        self.paid: list[int] = []
        self.error = error

    def pay(self, x: int, *, tip: int = 0) -> int:
        self.paid.append(x)
        if self.error is not None:
            raise self.error
        return x + tip

    def pay_later(self, x: int) -> Any:
        """Return what `then` returns, as most asynchronous functions do: it is no `torch.futures.Future`."""
        return completed(self.pay(x)).then(lambda done: done.value())


def paid(words: str, shop: Shop, **of: Any) -> Any:
    later = of.get("asynchronous", False)
    return deliver(envelope(words, **of), shop.pay_later if later else shop.pay, (1,), {} if later else {"tip": 2})


def events(folder: Path) -> list[str]:
    return [each.event for each in ledger.read(folder).events][1:]


def test_without_a_plan_at_the_callee_delivery_fails() -> None:
    CalleeState.open = None
    with pytest.raises(FaultError, match=r"^a fault hit shop:pay, but its callee has no plan installed$"):
        paid("Duplicate", Shop())


def test_a_delay_of_the_request_precedes_the_execution(tmp_path: Path) -> None:
    start = time.monotonic()
    assert paid("Delay side=request seconds=0.05", Shop()) == 3
    assert time.monotonic() - start >= 0.05
    assert events(tmp_path) == ["fired", "effective", "executing", "executed"]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_delay_of_the_reply_follows_in_another_thread(tmp_path: Path, asynchronous: bool) -> None:
    shop, start = Shop(), time.monotonic()
    future = paid("Delay side=reply seconds=0.2", shop, asynchronous=asynchronous)
    assert time.monotonic() - start < 0.2
    assert shop.paid == [1]
    assert not future.done()
    assert future.wait() == (1 if asynchronous else 3)
    assert time.monotonic() - start >= 0.2
    assert events(tmp_path) == ["executing", "executed", "fired", "effective"]


def test_delays_of_one_reply_add_up() -> None:
    start = time.monotonic()
    assert paid("Delay side=reply seconds=0.05; Delay side=reply seconds=0.1", Shop()).wait() == 3
    assert time.monotonic() - start >= 0.15


def test_a_late_error_keeps_its_type() -> None:
    start = time.monotonic()
    with pytest.raises(KeyError):
        paid("Delay side=reply seconds=0.05", Shop(KeyError("x")))
    assert time.monotonic() - start >= 0.05


def test_a_late_error_of_an_asynchronous_answer_stays_one() -> None:
    late = envelope("Delay side=reply seconds=0.05", asynchronous=True)
    future = deliver(late, lambda: completed(None).then(lambda done: 1 // 0), (), {})
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        future.wait()


class OnGpu(Future[int]):
    """Stands for an answer with tensors of a GPU: only `wait` waits for the kernels that fill them."""

    filled = False

    def wait(self) -> int:
        self.filled = True
        return super().wait()


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_late_answer_leaves_when_its_tensors_are_filled(asynchronous: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = OnGpu()
    answer.set_result(3)
    monkeypatch.setattr(delivery, "completed", lambda value: answer if value == 3 else completed(value))
    late = envelope("Delay side=reply seconds=0.05", asynchronous=asynchronous)
    assert deliver(late, lambda: answer if asynchronous else 3, (), {}).wait() == 3
    assert answer.filled


def test_an_asynchronous_delay_begins_with_the_answer(tmp_path: Path) -> None:
    pending: Future[int] = Future()
    future = deliver(envelope("Delay side=reply seconds=0.05", asynchronous=True), lambda: pending, (), {})
    assert "effective" not in events(tmp_path)
    start = time.monotonic()
    threading.Thread(target=pending.set_result, args=(7,)).start()
    assert future.wait() == 7
    assert time.monotonic() - start >= 0.05


def test_a_lost_request_is_never_executed(tmp_path: Path) -> None:
    shop = Shop()
    assert not paid("Drop side=request", shop).done()
    assert shop.paid == []
    assert events(tmp_path) == ["fired"]


def test_a_lost_reply_is_executed_once(tmp_path: Path) -> None:
    """Its answer is lost even if it is an error."""
    shop = Shop(ValueError("x"))
    assert not paid("Drop side=reply", shop).done()
    assert shop.paid == [1]
    assert events(tmp_path) == ["executing", "executed", "fired"]


def test_raise_has_a_default_and_replaces_another_error() -> None:
    with pytest.raises(FaultError, match=r"^injected$"):
        paid("Raise side=reply", Shop(KeyError("x")))


def test_a_call_is_answered_although_it_executes_again_for_long(tmp_path: Path) -> None:
    gate, calls = threading.Event(), itertools.count(1)

    def pay() -> int:
        """Wait only when it is executed again."""
        number = next(calls)
        assert number == 1 or gate.wait(10)
        return number

    assert deliver(envelope("Duplicate"), pay, (), {}) == 1
    assert ledger.read(tmp_path).of("effective") == []
    gate.set()
    assert CalleeState.open is not None
    CalleeState.open.finish()
    assert [event.details["executions"] for event in ledger.read(tmp_path).of("effective")] == [2]


def test_a_shutdown_does_not_wait_for_ever_for_a_call_that_executes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "LONG", 0.1)
    gate, first = threading.Event(), iter([True])
    deliver(envelope("Duplicate"), lambda: next(first, False) or gate.wait(), (), {})
    assert CalleeState.open is not None
    CalleeState.open.finish()
    seen = [event.event for event in ledger.read(tmp_path).of("fired", "effective")]
    gate.set()
    assert seen == ["fired"]


def test_two_duplicates_execute_a_call_three_times_and_answer_once(tmp_path: Path) -> None:
    shop = Shop()
    assert paid("Duplicate; Duplicate", shop) == 3
    assert shop.paid == [1, 1, 1]
    assert [each.details["executions"] for each in ledger.read(tmp_path).of("effective")] == [2, 3]


def test_a_duplicate_that_is_refused_does_not_change_the_answer(tmp_path: Path) -> None:
    first = iter([1])
    assert deliver(envelope("Duplicate"), lambda: next(first), (), {}) == 1
    (refused,) = ledger.read(tmp_path).of("refused")
    assert refused.details["error"] == "StopIteration: "


@pytest.mark.parametrize(
    ("plan", "broken"),
    [
        ("Raise side=request error=KeyError", None),
        ("Raise side=reply error=KeyError", None),
        ("Duplicate", None),  # the function's own error
        ("Delay side=request seconds=0.01", "TypeError: no time"),
    ],
)
def test_only_an_error_of_faults_itself_is_recorded_as_such(
    plan: str, broken: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait(*_: object) -> None:
        raise TypeError("no time")

    monkeypatch.setattr(delivery.Delivery, "wait", wait)
    with pytest.raises((KeyError, TypeError)):
        deliver(envelope(plan), {}.__getitem__, ("sale",), {})
    found = ledger.read(tmp_path).of("broken")
    assert [each.details["error"] for each in found] == ([broken] if broken else [])
    assert all("in wait" in each.details["stack"] for each in found)


@pytest.mark.parametrize("side", ["request", "reply"])
def test_a_kind_that_is_only_declared_is_an_error_of_faults_itself(
    side: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale = type("Stale", (OfCall,), {"name": "Stale", "needs": ("site", "side", "seconds")})
    monkeypatch.setitem(kinds.NAMED, "Stale", [stale()])
    monkeypatch.setattr(kinds, "NAMES", ("Stale",))
    with pytest.raises(NotImplementedError):
        paid(f"Stale side={side} seconds=0.01", Shop())
    found = [each.details["error"] for each in ledger.read(tmp_path).of("broken")]
    assert found == [f"NotImplementedError: no Stale of a {side}"]


def test_faults_of_one_call_come_in_the_order_of_the_plan(tmp_path: Path) -> None:
    shop = Shop()
    with pytest.raises(KeyError):
        paid("Duplicate; Delay side=request seconds=0.01; Raise side=reply error=KeyError", shop)
    assert [each.details["fault"] for each in ledger.read(tmp_path).of("fired")] == [1, 0, 2]
    assert shop.paid == [1, 1]


def test_an_order_is_effective_even_if_the_last_call_raises(tmp_path: Path) -> None:
    words = "Order roles=a,b seconds=1"
    assert paid(words, Shop(), caller="a") == 3
    assert ledger.read(tmp_path).of("fired") == []
    with pytest.raises(ValueError, match="x"):
        paid(words, Shop(ValueError("x")), caller="b")
    assert [each.details["executed"] for each in ledger.read(tmp_path).of("effective")] == [["a", "b"]]


def test_each_fault_says_its_own_site_and_number(tmp_path: Path) -> None:
    """A call of a helper with a method belongs to both sites."""
    faults = Plan.parse("Duplicate site=shop:help nth=3; Duplicate site=shop:pay nth=2").faults
    both = Envelope(dict(enumerate(faults)), "a", "shop:pay", False, {"shop:help": 3, "shop:pay": 2}, {}, 0)
    deliver(both, Shop().pay, (1,), {})
    found = [(each.details["site"], each.details["nth"]) for each in ledger.read(tmp_path).of("fired")]
    assert found == [("shop:help", 3), ("shop:pay", 2)]


def test_a_mistake_of_the_program_stays_visible() -> None:
    assert deliver(envelope("Delay side=reply seconds=9", asynchronous=True), lambda: 3, (), {}) == 3


# Corrupted requests and replies: what is executed and answered, and the receipts.


def corrupted(side: str, how: str, *, later: bool = False, seed: int = 0) -> Envelope:
    return envelope(f"Corrupt side={side} change={how}", asynchronous=later, seed=seed)


def add(x: Any, y: Any) -> Any:
    return {"sum": x + y}


def add_later(x: Any, y: Any) -> Any:
    return completed(x).then(lambda done: {"sum": done.value() + y})


def digest_of(values: list[float]) -> str:
    return hashlib.sha256(torch.tensor(values).numpy().tobytes()).hexdigest()[:16]


def answered(found: Any) -> list[float]:
    value = found.wait() if isinstance(found, torch._C.Future) else found
    return value["sum"].tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize(
    ("side", "old", "wanted"), [("request", [1.0, 2.0], [10.0, 10.0]), ("reply", [11.0, 12.0], [0.0, 0.0])]
)
def test_the_receipt_tells_what_was_delivered(
    tmp_path: Path, side: str, old: list[float], wanted: list[float], later: bool
) -> None:
    x = torch.tensor([1.0, 2.0])
    assert answered(deliver(corrupted(side, "zeros", later=later), add_later if later else add, (x, 10), {})) == wanted
    assert x.tolist() == [1.0, 2.0]
    done, fault = ["executing", "executed"], ["fired", "effective"]
    assert events(tmp_path) == ([*fault, *done] if side == "request" else [*done, *fault])
    timeline = ledger.read(tmp_path)
    assert timeline.of("fired")[0].details["tensor"] == 0
    assert timeline.of("fired")[0].details["shape"] == [2]
    assert timeline.of("fired")[0].details["old"] == str(old[0])
    assert timeline.of("effective")[0].details["digest"] == digest_of([0.0, 0.0])
    assert timeline.of("effective")[0].details["instead_of"] == digest_of(old)


def test_the_same_seed_changes_the_same_bit_and_others_differ() -> None:
    x = torch.zeros(1000)
    found = [answered(deliver(corrupted("request", "bit", seed=s), add, (x, 0), {})) for s in (1, 1, 2)]
    assert found[0] == found[1] != found[2]
    twice = envelope("Corrupt side=request change=bit; Corrupt side=request change=bit", seed=1)
    assert torch.tensor(answered(deliver(twice, add, (x, 0), {}))).count_nonzero() == 2


def test_a_fault_at_another_site_of_the_call_changes_no_bit() -> None:
    x, both = torch.zeros(1000), {SITE: 1, "shop:Till.pay": 4}
    (change,) = Plan.parse(f"Corrupt side=request change=bit site={SITE}").faults
    (late,) = Plan.parse("Delay side=request seconds=0.001 site=shop:Till.pay").faults
    alone = Envelope({0: change}, "a", SITE, False, both, {}, 1)
    beside = Envelope({0: change, 1: late}, "a", "shop:Till.pay", False, both, {}, 1)
    found = [answered(deliver(each, add, (x, 0), {})) for each in (alone, beside)]
    assert found[0] == found[1] != x.tolist()


def test_a_leaf_that_wants_gradients_arrives_as_a_leaf() -> None:
    leaf = torch.ones(2, requires_grad=True)
    (kept,) = deliver(corrupted("request", "zeros"), list, ([leaf],), {})
    assert kept.is_leaf
    assert kept.requires_grad
    assert kept.tolist() == [0.0, 0.0]
    assert leaf.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("side", ["request", "reply"])
@pytest.mark.parametrize("later", [False, True])
def test_zeros_over_zeros_fire_without_an_effect(tmp_path: Path, side: str, later: bool) -> None:
    zeros = (torch.zeros(2), 0)
    answered(deliver(corrupted(side, "zeros", later=later), add_later if later else add, zeros, {}))
    assert [each for each in events(tmp_path) if each != "executing"] in (["fired", "executed"], ["executed", "fired"])
    assert ledger.read(tmp_path).of("fired")[0].details["changed"] == 0


@pytest.mark.parametrize(
    ("side", "how", "args", "why"),
    [
        ("request", "bit", (1, 2), "wanted a tensor with elements, got no tensor"),
        ("reply", "nan", (torch.tensor([1]), 2), r"wanted a floating-point .* int64\[1\]"),
    ],
)
def test_a_message_without_such_a_tensor_passes_and_says_why(
    tmp_path: Path, side: str, how: str, args: tuple[Any, ...], why: str
) -> None:
    wanted = add(*args)
    assert deliver(corrupted(side, how), add, args, {}) == wanted
    assert sorted(events(tmp_path)) == ["executed", "executing", "failed"]
    (failed,) = ledger.read(tmp_path).of("failed")
    assert re.match(f"the {side} holds nothing to hit: {why}", failed.details["why"]), failed.details


def refuse(x: Any) -> Any:
    raise ValueError("no sale")


def test_an_error_stays_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^no sale$"):
        deliver(corrupted("reply", "bit"), refuse, (torch.ones(1),), {})
    with pytest.raises(RuntimeError, match="no sale"):
        deliver(corrupted("reply", "bit", later=True), lambda x: completed(x).then(refuse), (torch.ones(1),), {}).wait()
    found = ledger.read(tmp_path).of("fired", "failed")
    told = [(each.event, each.details["side"], each.details["why"]) for each in found]
    assert told == [("failed", "reply", "the reply holds no tensor: the call raised")] * 2


def test_a_reply_that_cannot_be_pickled_is_left_to_rpc(tmp_path: Path) -> None:
    assert deliver(corrupted("reply", "bit"), lambda: lambda: 1, (), {})() == 1
    assert ledger.read(tmp_path).of("failed")[0].details["why"].startswith("the reply cannot be pickled: ")
