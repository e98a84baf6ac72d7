"""Every kind of fault at every form of call, in real worlds: by count, by effect, and by the ledger.

Behaviours of torch pinned here were measured on torch 2.13.0.
"""

from __future__ import annotations

import gc
import hashlib
import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from faults.inject.announcer import Announcer
from faults.inject.call.calls import Calls
from faults.ledger import ledger
from faults.plan import Plan
from faults.run.runs import prepared, scope
from reference.outcome import Killed
from reference.world import World, launch
from tests.support import roles_shop as shop
from tests.support.active_plan import active, played
from tests.support.roles_plain import nothing

pytestmark = pytest.mark.world("a", "b", "c", "d")

HERE = shop.HERE
SECONDS = 0.1
TIMEOUT = 0.2
# Leaks at the callee: RRefs that the caller must not drop, and those that torch does not (docs/behaviours.md).
KEEPS = {way: [pytest.mark.leaves("rrefs")] for way in ("remote", "proxy_remote", "proxy_async")}
FORMS = [
    *(pytest.param(way, "b", marks=KEEPS.get(way, [])) for way in shop.WAYS),
    *(("rpc_sync", "a"), ("remote", "a"), ("asynchronous", "a"), ("proxy", "a")),
]


@dataclass(frozen=True)
class Effect:
    """The effect of a fault on one call: the caller's result, its least seconds, and the callee's executions."""

    fault: str
    error: str = ""
    text: str = ""
    seconds: float = 0.0
    executions: int = 1
    effective: bool = False


SALE = "error=ValueError text='no sale'"
TIMED_OUT = "RPC ran for more than set timeout"
TORN = "EOF: end of file (this error originated at tensorpipe/"
EFFECTS = (
    Effect(f"Delay side=request seconds={SECONDS}", seconds=SECONDS, effective=True),
    Effect(f"Delay side=reply seconds={SECONDS}", seconds=SECONDS, effective=True),
    Effect(f"Raise side=request {SALE}", "ValueError", "no sale", executions=0),
    Effect(f"Raise side=reply {SALE}", "ValueError", "no sale"),
    Effect("Duplicate", executions=2, effective=True),
    Effect("Raise side=flight", "RuntimeError", TORN, effective=True),
    Effect("Drop side=request", "RuntimeError", TIMED_OUT, TIMEOUT, executions=0),
    Effect("Drop side=reply", "RuntimeError", TIMED_OUT, TIMEOUT),
)


@contextmanager
def own_world(
    plan: str, folder: Path, roles: str | Mapping[str, Callable[[], object]], **options: Any
) -> Iterator[World]:
    """A world under a plan that ends roles, or that the others would wait for. Idle roles have one letter each."""
    with (
        scope(Plan.parse(plan), folder, list(roles)) as arguments,
        launch(list(roles) if isinstance(roles, str) else roles, deadline=100, options=options, **arguments) as world,
    ):
        yield world


def executed(world: World, name: str) -> int:
    return sum(world.call(role, shop.counts).get(name, 0) for role in ("a", "b"))


@pytest.mark.parametrize(("way", "to"), FORMS, ids=str)
def test_each_kind_hurts_its_call_and_no_other(world: World, tmp_path: Path, way: str, to: str) -> None:
    """Make two calls more than there are effects: the first and the last are healthy, and each other call meets one
    kind of fault."""
    name, site = shop.WAYS[way].name, shop.WAYS[way].site
    # A `remote` is never in flight. Without a `remote` to oneself that is never answered: see the test of that.
    effects = [each for each in EFFECTS if "remote" not in way or each.text != TORN]
    effects = effects[:-2] if (way, to) == ("remote", "a") else effects
    plan = "; ".join(f"{each.fault} site={site} nth={nth}" for nth, each in enumerate(effects, 2))
    lost = [nth for nth, each in enumerate(effects, 2) if each.text == TIMED_OUT]
    count = len(effects) + 2
    first, *faulty, last = played(world, tmp_path, plan, shop.calls, way, to, count, TIMEOUT, lost or [0])
    assert first.value == 2
    assert last.value == count * count + count
    for number, (effect, seen) in enumerate(zip(effects, faulty, strict=True), 2):
        # torch keeps the type of an error of the function itself, but not that of an error of its future's callback.
        callback = "asynchronous" in way and "Raise side=reply" in effect.fault
        assert seen.error == ("RuntimeError" if callback else effect.error), (effect, seen)
        assert effect.text in seen.text
        assert seen.value == (None if effect.error else number * number + number), (effect, seen)
        assert effect.seconds * 0.98 <= seen.seconds, (effect, seen)
    timeline = ledger.read(tmp_path)
    assert executed(world, name) == 2 + sum(each.executions for each in effects)
    assert timeline.facts() == sorted(facts(to, site, effects), key=repr)
    assert [each.details["fault"] for each in timeline.of("planned") if each.role == "a"] == [*range(len(effects))]
    begun = {each.made: each.time for each in timeline.of("invoke")}
    for end in timeline.of("ok", "fail", "info"):
        assert 0 < end.details["seconds"] <= end.time - begun[end.made]
    known = [each for each in timeline.of("invoke") if "faults" in each.details]
    assert [(each.details["nth"], each.details["faults"]) for each in known] == [
        (nth, [nth - 2]) for nth in range(2, len(effects) + 2)
    ]


def test_a_caller_counts_its_calls_of_a_site_whomever_they_go_to(world: World, tmp_path: Path) -> None:
    """The fault hits the caller's second call, although it is the first to its callee; no other second call is hit."""
    site = shop.WAYS["rpc_sync"].site
    with active(world, tmp_path, f"Raise site={site} role=a nth=2 side=request {SALE}"):
        ways = [world.call("a", shop.calls, "rpc_sync", to, 1)[0].error for to in ("a", "b", "a", "b")]
        assert world.call("b", shop.calls, "rpc_sync", "a", 2)[1].error == ""
    assert ways == ["", "ValueError", "", ""]
    numbers = [each.details["nth"] for each in ledger.read(tmp_path).of("invoke") if each.role == "a"]
    assert numbers == [1, 2, 3, 4]


@pytest.mark.parametrize(("nth", "hit"), [("2", [4]), ("1-2", [2, 4]), ("3", [])])
def test_a_fault_to_one_callee_counts_and_hits_the_calls_to_it(
    world: World, tmp_path: Path, nth: str, hit: list[int]
) -> None:
    site = shop.WAYS["rpc_sync"].site
    with active(world, tmp_path, f"Raise site={site} role=a to=b nth={nth} side=request {SALE}"):
        ways = [world.call("a", shop.calls, "rpc_sync", to, 1)[0].error for to in ("a", "b", "a", "b")]
    assert [number for number, error in enumerate(ways, 1) if error] == hit
    fired = [(each.details["nth"], each.details["nth_to"]) for each in ledger.read(tmp_path).of("fired")]
    assert fired == [(number, number // 2) for number in hit]


def test_the_faults_of_a_calls_two_sites_happen_in_the_order_of_the_plan(world: World, tmp_path: Path) -> None:
    own = f"Raise site={shop.WAYS['helper'].site} side=request error=TypeError"
    helpers = f"Raise site={HERE}call_method side=request error=ValueError"
    assert played(world, tmp_path, f"{own}; {helpers}", shop.calls, "helper", "b", 1)[0].error == "TypeError"


def test_a_signals_handler_may_make_a_call_while_one_is_counted(tmp_path: Path) -> None:
    """It comes whenever the program gets to run Python."""
    calls = Calls(Plan(), "a", ledger.Ledger(tmp_path, "a"), Announcer("a"))
    seen, handled = list[int](), list[int]()

    def handler(*_: object) -> None:
        handled.append(calls.begin(("m:f",), later=False)[0]["m:f"])

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 1e-4, 1e-4)
    try:
        while len(handled) < 300:
            seen.append(calls.begin(("m:f",), later=False)[0]["m:f"])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert sorted(seen + handled) == [*range(1, len(seen) + len(handled) + 1)]


def test_a_finalizer_may_make_a_call_while_one_is_counted(tmp_path: Path) -> None:
    """Until Python 3.11 the garbage collector runs it also within functions of C, after some number of new objects."""
    calls = Calls(Plan(), "a", ledger.Ledger(tmp_path, "a"), Announcer("a"))
    sites, seen, before = ["m:f"], list[tuple[str, int]](), gc.get_threshold()

    def call(*_: object) -> None:
        site = sites[-1]
        seen.append((site, calls.begin((site,), later=False)[0][site]))

    gc.callbacks.append(call)
    try:
        for number in range(20):
            gc.collect(0)
            sites.append(f"m:f{number}")
            gc.set_threshold(number + 1)
            call()
            gc.set_threshold(0)
    finally:
        gc.callbacks.remove(call)
        gc.set_threshold(*before)
    assert len(seen) == len(set(seen)) > 20


def facts(to: str, site: str, effects: Sequence[Effect]) -> Iterator[tuple[str, str, tuple[tuple[str, Any], ...]]]:
    for fault, effect in enumerate(effects):
        kind = effect.fault.split()[0]
        what = (("fault", fault), ("kind", kind), ("site", site), ("caller", "a"), ("nth", fault + 2))
        yield to, "fired", what
        if effect.effective:
            yield to, "effective", what


HOWS = [(side, how) for side in ("request", "reply") for how in ("bit", "nan", "zeros")]


@pytest.mark.parametrize(("way", "to"), FORMS, ids=str)
def test_a_corrupted_tensor_is_the_one_that_arrives(world: World, tmp_path: Path, way: str, to: str) -> None:
    """The answer shows which element was changed and to what, and the caller keeps the tensor that it sent."""
    site = shop.WAYS[way].site
    faults = [f"Corrupt site={site} nth={nth} side={side} change={how}" for nth, (side, how) in enumerate(HOWS, 2)]
    seen = played(world, tmp_path, f"seed=3; {'; '.join(faults)}", shop.squares, way, to, len(HOWS) + 2)
    given = [torch.arange(4, dtype=torch.float64) + number for number in range(1, len(seen) + 1)]
    assert all(torch.equal(x, kept) for x, (kept, _) in zip(given, seen, strict=True))
    answers = [answer for _, answer in seen]
    fired, effective = (ledger.read(tmp_path).of(event) for event in ("fired", "effective"))
    assert [each.details["fault"] for each in fired] == [*range(len(HOWS))]
    for number, (side, how) in enumerate(HOWS):
        x, details = given[number + 1].clone(), fired[number].details
        changed = x if side == "request" else x * x + x
        place = details["element"][0] if how != "zeros" else slice(None)
        assert how == "zeros" or float(changed[place]) == float(details["old"])
        changed[place] = float(details["new"])
        wanted = changed * changed + changed if side == "request" else changed
        assert torch.equal(answers[number + 1].nan_to_num(7), wanted.nan_to_num(7)), (side, how)
        if side == "reply":
            content = answers[number + 1].numpy().tobytes()
            assert effective[number].details["digest"] == hashlib.sha256(content).hexdigest()[:16]
    assert all(torch.equal(answers[n], given[n] ** 2 + given[n]) for n in (0, -1))


@pytest.mark.parametrize("way", shop.WAYS)
def test_gradients_stay_the_same_bits(world: World, tmp_path: Path, way: str) -> None:
    site = shop.WAYS[way].site
    healthy = played(world, tmp_path, "seed=0", shop.gradients, way, "b", 5)
    lasting = [each for each in EFFECTS if each.effective and not each.error]
    plan = "; ".join(f"{each.fault} site={site} nth={nth}" for nth, each in enumerate(lasting, 2))
    faulty = played(world, tmp_path, plan, shop.gradients, way, "b", 5)
    assert len(ledger.read(tmp_path).of("fired")) == len(lasting) == 3
    assert all(torch.equal(x, y) for x, y in zip(healthy, faulty, strict=True))
    assert torch.equal(healthy[0], 2 * (torch.arange(3, dtype=torch.float64) / 4 + 1) + 1)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("way", ["rpc_sync", "remote", "asynchronous", "proxy", "helper"])
def test_a_crash_kills_the_callee_before_or_after_it_executes(tmp_path: Path, when: str, way: str) -> None:
    with own_world(f"Crash site={shop.WAYS[way].site} nth=2 when={when}", tmp_path, "ab") as world:
        first, second, third = world.call("a", shop.calls, way, "b", 3, 5.0)
        assert world.wait()["b"] == Killed(signal.SIGKILL)
    assert first.value == 2
    assert second.error == "RuntimeError"
    assert third.error == "RuntimeError"
    assert second.seconds < 2
    timeline = ledger.read(tmp_path)
    what = (("fault", 0), ("kind", "Crash"), ("site", shop.WAYS[way].site), ("caller", "a"), ("nth", 2))
    assert timeline.facts() == [("b", "fired", what)]
    assert len(timeline.of("executed")) == (when == "after")


CHANCES = "; ".join(
    f"{kind} site={HERE}function chance_percent=40" for kind in ("Raise side=request", "Duplicate", "Raise side=reply")
)


def test_the_same_plan_twice_gives_the_same_facts(world: World, tmp_path: Path) -> None:
    facts = []
    for number, seed in enumerate([5, 5, 6]):
        played(world, tmp_path / str(number), f"seed={seed}; {CHANCES}", shop.calls, "rpc_sync", "b", 20)
        facts.append(ledger.read(tmp_path / str(number)).facts())
    assert facts[0] == facts[1] != facts[2]
    assert facts[0]


@pytest.mark.parametrize("function", shop.ARRIVALS)
@pytest.mark.parametrize("roles", ["abc", "bca"])
def test_an_order_holds_whatever_the_order_of_arrival(world: World, tmp_path: Path, function: str, roles: str) -> None:
    """The calls arrive in the reverse order, one by one, which is the worst case."""
    with active(world, tmp_path, f"Order site={HERE}{function} roles={','.join(roles)} seconds=10", "abcd"):
        for number, role in enumerate(reversed(roles), 1):
            world.call(role, shop.send_arrival, function, "d")
            if number < len(roles):  # once all have arrived, none waits any more
                assert world.call("d", shop.await_arrivals, number)
        answers = [world.call(role, shop.take_answer) for role in roles]
    assert world.call("d", shop.executions) == list(roles)
    assert [each.value for each in answers] == list(roles)
    timeline = ledger.read(tmp_path)
    (fired,) = timeline.of("fired")
    assert fired.details["arrived"] == list(reversed(roles))
    assert timeline.of("effective")[0].details["executed"] == list(roles)


@pytest.mark.parametrize(
    ("fault", "blocks"),
    [
        ("Delay side=reply seconds=0.6", False),
        ("Drop side=reply", False),
        ("Drop side=request", False),
        ("Delay side=request seconds=0.6", True),
    ],
)
def test_delayed_and_dropped_replies_hold_no_rpc_thread(tmp_path: Path, fault: str, blocks: bool) -> None:
    """The callee has one RPC thread. The caller sends the call with the fault, and then another one."""
    with own_world(f"{fault} site={HERE}function", tmp_path, "ab", num_worker_threads=1) as world:
        seconds = world.call("a", shop.seconds_of_another_call, "b")
    assert len(ledger.read(tmp_path).of("fired")) == 1
    assert (seconds >= 0.5) if blocks else (seconds < 0.5)


def ends(folder: Path) -> dict[str, tuple[str, str]]:
    """Map each site to (event, error) of each call that ended, without torch's own calls."""
    found = ledger.read(folder).of("ok", "fail", "info")
    return {
        each.details["site"].partition(":")[2]: (each.event, each.details.get("error", ""))
        for each in found
        if each.details["site"].startswith(HERE)
    }


class TestLedger:
    @pytest.mark.parametrize("how", ["process", "plan", "refused"])
    def test_what_ends_records_calls_whose_callbacks_have_not_run(self, world: World, tmp_path: Path, how: str) -> None:
        folder = str(prepared(Plan(), tmp_path))
        assert world.call("a", shop.ends_when_settled, folder, "b", how) == ["fail" if how == "refused" else "ok"]

    def test_a_thread_that_only_waits_records_the_end_of_its_call(self, world: World, tmp_path: Path) -> None:
        assert world.call("a", shop.ends_recorded_here, str(prepared(Plan(), tmp_path)), "b") == ["ok", "fail"]

    def test_a_signals_handler_may_call_within_a_line_while_a_thread_records_an_end(
        self, world: World, tmp_path: Path
    ) -> None:
        """With two locks each would have what the other one waits for."""
        folder = str(prepared(Plan(), tmp_path))
        assert world.call("a", shop.hears_a_signal_within_a_line, folder, "b", deadline=20) == ["ok", "ok"]

    def test_what_a_signals_handler_raises_in_a_call_reaches_the_program(self, world: World, tmp_path: Path) -> None:
        """Although nothing but that handler has failed."""
        ended = world.call("a", shop.meets_a_signal, str(prepared(Plan(), tmp_path)), "b")
        assert (ended.error, ended.text) == ("TimeoutError", "too slow")
        assert ends(tmp_path) == {"nap": ("ok", "")}
        assert ledger.read(tmp_path).of("broken") == []

    @pytest.mark.parametrize(
        ("kind", "text"),
        [
            ("TypeError", "TypeError: TypeError('no sale')"),
            ("ValueError", "ValueError: ValueError('no sale')"),
            ("KeyError", "KeyError('no sale')"),
            ("RuntimeError", "RuntimeError: RuntimeError('no sale')"),
        ],
    )
    def test_an_exception_of_the_callee_is_definite(self, world: World, tmp_path: Path, kind: str, text: str) -> None:
        answer = played(world, tmp_path, f"Duplicate site={HERE}never", shop.refused, kind, "b")
        assert answer.error
        event, error = ends(tmp_path)["refuse"]
        assert event == "fail", error
        assert text in error, error

    def test_an_exception_in_a_callback_is_indefinite(self, world: World, tmp_path: Path) -> None:
        """torch answers with its text only, as it does for a connection that broke."""
        answer = played(world, tmp_path, f"Duplicate site={HERE}never", shop.refused, "later", "b")
        assert "no sale" in answer.text
        assert ends(tmp_path)["refuse_later"][0] == "info"

    def test_a_timeout_is_indefinite(self, world: World, tmp_path: Path) -> None:
        plan = f"Delay site={HERE}function side=request seconds=0.3"
        with active(world, tmp_path, plan):
            world.call("a", shop.calls, "rpc_sync", "b", 1, 0.1)
            due = time.monotonic() + 10
            while not executed(world, "function"):  # under the plan, without which its delay would be refused
                assert time.monotonic() < due
        event, error = ends(tmp_path)["function"]
        assert event == "info"
        assert error.startswith("RuntimeError: RPCErr:1:RPC ran for more than set timeout (100 ms)")

    def test_a_call_that_cannot_be_pickled_is_definite(self, world: World, tmp_path: Path) -> None:
        answer = played(world, tmp_path, f"Duplicate site={HERE}never", shop.send_a_lock, "b")
        assert "cannot pickle" in answer.text
        assert ends(tmp_path)["function"][0] == "fail"

    @pytest.mark.parametrize("options", [{}, {"_transports": None, "_channels": None}], ids=["uv", "default"])
    def test_a_call_to_a_dead_callee_is_indefinite(self, tmp_path: Path, options: dict[str, Any]) -> None:
        """The callee is killed during a call, then it is dead, then dead for a caller that has never called it."""
        with (
            own_world(f"Crash site={HERE}function when=before role=a", tmp_path, "abc", **options) as world,
            os.fdopen(os.pidfd_open(world.pids["c"]), "rb", 0) as process,  # readable when it has ended
        ):
            (lost,) = world.call("a", shop.calls, "rpc_sync", "c", 1, 5.0)
            assert lost.error
            world.call("a", shop.calls, "static", "c", 1, 5.0)
            assert select.select([process], [], [], 10)[0], "its sockets are closed one after the other"
            world.call("b", shop.calls, "of_class", "c", 1, 5.0)
            for role in "ab":
                world.call(role, shop.await_ends)
        found = ends(tmp_path)
        assert [found[name][0] for name in ("function", "Till.static", "Till.of_class")] == ["info", "info", "info"]
        assert "eof" in found["function"][1].lower()
        assert found["Till.static"][1] == found["function"][1]  # torch remembers it
        assert "ECONNREFUSED" in found["Till.of_class"][1]


def test_a_pickler_of_the_users_own_passes_unhurt(world: World, tmp_path: Path) -> None:
    plan = f"Raise site={HERE}function side=request nth=2"
    answers = played(world, tmp_path, plan, shop.with_own_pickler, "b")
    assert [each.error for each in answers] == ["", "", "RuntimeError", ""]


def test_shutdown_survives_a_reply_that_is_still_delayed(tmp_path: Path) -> None:
    """The caller has given up. The callee's late answer reaches nobody, and must not crash the callee. If the caller's
    process has closed its end just then, torch warns of that, and nobody of anything else."""
    plan = f"Delay site={HERE}function side=reply seconds=1.2"
    with own_world(plan, tmp_path, {"a": partial(shop.calls, "rpc_sync", "b", 1, 0.2), "b": nothing}) as world:
        outcomes = world.wait()
        assert all("when sending response" in line for line in world.log("b").splitlines())
    assert {type(each).__name__ for each in outcomes.values()} == {"Returned"}
