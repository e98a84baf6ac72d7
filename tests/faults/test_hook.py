"""The hook: what it replaces, when, and that it puts everything back. torch 2.13.0."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
import types
from collections.abc import Iterator
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
import torch.distributed.rpc as rpc
from torch.distributed.rpc import api

from faults import hook
from faults.inject.call.delivery import CalleeState
from faults.ledger import ledger
from faults.ledger.record import PLAN as PLAN_FILE
from faults.ledger.run_files import MARK
from faults.plan import Plan, PlanError
from faults.plan.places import Moment
from faults.run.runs import prepared, scope
from reference.outcome import Returned
from reference.world import launch
from tests.support import roles_plugin
from tests.support import roles_shop as shop
from tests.support.roles_plain import nothing

HERE = shop.HERE
PLAN = Plan.parse(f"Duplicate site={HERE}function nth=2")


@pytest.fixture(autouse=True)
def _undone() -> Iterator[None]:
    yield
    hook.remove()


def everything() -> dict[str, int]:
    """Return the identity of everything that torch's RPC modules hold."""
    modules = [name for name in sys.modules if name.startswith("torch.distributed.rpc")]
    return {f"{name}.{key}": id(value) for name in modules for key, value in vars(sys.modules[name]).items()}


def changed(before: dict[str, int]) -> set[str]:
    return {name for name, value in everything().items() if before.get(name) != value}


def test_an_empty_plan_replaces_nothing(tmp_path: Path) -> None:
    before = everything()
    hook.install(prepared(Plan(seed=4), tmp_path))
    assert changed(before) == set()
    assert {each.name for each in tmp_path.iterdir()} == {PLAN_FILE, MARK}


def test_install_replaces_start_and_shutdown_only_and_remove_puts_them_back(tmp_path: Path) -> None:
    """Installing again does not pile up."""
    before, original = everything(), rpc.init_rpc
    for _ in range(3):
        hook.install(prepared(PLAN, tmp_path))
    rpc_ = "torch.distributed.rpc"
    assert changed(before) == {f"{rpc_}.init_rpc", f"{rpc_}.shutdown", f"{rpc_}.api.shutdown"}
    late = types.ModuleType("late")
    late.taken = rpc.init_rpc  # type: ignore[attr-defined]
    sys.modules["late"] = late
    try:
        hook.remove()
        assert late.taken is original
    finally:
        del sys.modules["late"]
    assert changed(before) == set()


def test_an_active_plan_replaces_known_names_and_puts_them_back(tmp_path: Path) -> None:
    before = everything()
    hook.activate(prepared(PLAN, tmp_path), "a")
    assert CalleeState.open is not None
    found = {name.removeprefix("torch.distributed.rpc.") for name in changed(before)}
    assert found == {
        "shutdown",
        "api.shutdown",
        "api._default_pickler",
        "api._finalize_shutdown",
        "api._internal_rpc_pickler",
        "api._invoke_remote_python_udf",
        "api._invoke_rpc",
        "api._invoke_rpc_python_udf",
    }
    hook.deactivate()
    assert changed(before) == set()
    assert CalleeState.open is None


def test_a_reply_that_a_plan_delays_is_given_when_the_plan_ends(tmp_path: Path) -> None:
    given: list[str] = []
    hook.activate(prepared(PLAN, tmp_path), "a")
    assert CalleeState.open is not None
    CalleeState.open.delayed_replies.answer(60, lambda: None, partial(given.append, "sold"))
    hook.deactivate()
    assert given == ["sold"]


def test_a_step_that_is_no_longer_recorded_is_still_a_moment(tmp_path: Path) -> None:
    """The ledger has the first 10,000 steps. A fault may be planned for a later one."""
    reached: list[int] = []
    announcer = hook.activated(prepared(PLAN, tmp_path), "a")
    for number in (hook.RECORDED, hook.RECORDED + 1):
        announcer.subscribe(Moment("step", "a", number), partial(reached.append, number))
    for number in (1, hook.RECORDED, hook.RECORDED + 1):
        logging.getLogger("shop").warning("step %d", number, extra={"step": number})
    hook.deactivate()
    assert reached == [10_000, 10_001]
    assert [each.details["number"] for each in ledger.read(tmp_path).of("step")] == [1, 10_000]


def test_logged_errors_are_recorded_up_to_the_same_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook, "RECORDED", 2)
    hook.activate(prepared(PLAN, tmp_path), "a")
    logging.getLogger("shop").warning("below the level of an error")
    for number in (1, 2, 3):
        logging.getLogger("shop").error("no sale %d", number)
    hook.deactivate()
    told = [each.details["text"] for each in ledger.read(tmp_path).of("logged")]
    assert told == ["no sale 1", "no sale 2"]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_what_a_forked_child_logs_is_not_the_roles(tmp_path: Path) -> None:
    """The child has no such step."""
    announcer, fired = hook.activated(prepared(PLAN, tmp_path), "a"), tmp_path / "fired"
    announcer.subscribe(Moment("step", "a", 1), fired.touch)
    extra = {"extra": {"step": 1}}
    child = get_context("fork").Process(target=logging.getLogger("shop").error, args=("no sale",), kwargs=extra)
    child.start()
    try:
        child.join(30)
        assert child.exitcode == 0
    finally:
        child.kill()
        child.join()
        hook.deactivate()
    assert not fired.exists()
    assert ledger.read(tmp_path).of("step", "logged") == []


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_may_play_a_role_while_a_thread_of_its_parent_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not answer the calls of its parent's role."""
    writing, over, seek = threading.Event(), threading.Event(), os.lseek

    def held(*arguments: int) -> int:
        if threading.current_thread() is thread:
            writing.set()
            over.wait(30)
        return seek(*arguments)

    hook.activate(prepared(PLAN, tmp_path), "a")
    own = CalleeState.open
    assert own is not None
    own.delayed_replies.answer(60, lambda: None, (tmp_path / "given").touch)
    thread = threading.Thread(target=own.ledger.write, args=("step",), kwargs={"number": 1})
    monkeypatch.setattr(os, "lseek", held)
    thread.start()
    assert writing.wait(10)
    child = get_context("fork").Process(target=hook.activate, args=(tmp_path, "b"))
    child.start()
    try:
        child.join(10)
        assert child.exitcode == 0
        assert not (tmp_path / "given").exists()
    finally:
        over.set()
        thread.join()
        child.kill()
        child.join()
        hook.deactivate()
    assert ledger.read(tmp_path).roles == ("a", "b")


def test_an_error_at_a_moment_is_of_faults_itself(tmp_path: Path) -> None:
    announcer = hook.activated(prepared(PLAN, tmp_path), "a")
    announcer.subscribe(Moment("shutdown", "a"), partial(_raise, TypeError("no order")))
    with pytest.raises(TypeError):
        announcer.announce("shutdown")
    hook.deactivate()
    assert [each.details["error"] for each in ledger.read(tmp_path).of("broken")] == ["TypeError: no order"]


def test_an_error_that_ends_only_a_thread_is_recorded_and_told_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", lambda ended: told.append(ended.exc_type))
    before = sys.excepthook, threading.excepthook
    hook.install(prepared(PLAN, tmp_path))
    hook.activate(tmp_path, "a")
    for error in (KeyError("no sale"), SystemExit(3)):
        thread = threading.Thread(target=_raise, args=(error,), name="reader")
        thread.start()
        thread.join(10)
    threading.excepthook(threading.ExceptHookArgs((OSError, None, None, None)))  # Python allows it: no error to record
    hook.remove()
    assert (sys.excepthook, threading.excepthook) == before
    assert told == [KeyError, SystemExit, OSError]
    [event] = ledger.read(tmp_path).of("thread")
    assert event.details["name"] == "reader"
    assert event.details["error"] == "KeyError: 'no sale'"
    assert event.details["links"][0]["types"] == ["KeyError", "LookupError", "Exception"]


def test_an_error_that_ends_a_process_is_recorded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process tells it where it is raised, and again at its exit."""
    monkeypatch.setattr(hook, "_told", set())
    for _ in range(2):
        hook.tell_uncaught(tmp_path, KeyError("no sale"))
    assert [each.details["error"] for each in ledger.read(tmp_path).of("raised")] == ["KeyError: 'no sale'"]


def _raise(error: BaseException) -> None:
    raise error


def test_a_torch_without_these_names_is_refused_and_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(api, "_invoke_remote_python_udf")
    before = everything()
    message = r"^this torch has no _invoke_remote_python_udf in torch\.distributed\.rpc\.api$"
    with pytest.raises(PlanError, match=message):
        hook.activate(prepared(PLAN, tmp_path), "a")
    assert changed(before) == set()


def run(folder: Path, play: Any, plan: str = str(PLAN)) -> ledger.Timeline:
    """Return the ledger of a world in which ``a`` executes the function, and ``b`` only answers calls."""
    roles = {"a": play, "b": nothing}
    with scope(Plan.parse(plan), folder, list(roles)) as arguments, launch(roles, deadline=100, **arguments) as world:
        assert {type(each) for each in world.wait().values()} == {Returned}, world.log("a")
    return ledger.read(folder)


def left(timeline: ledger.Timeline) -> dict[str, dict[str, int]]:
    return {each.role: {n: c for n, c in each.details.items() if c} for each in timeline.of("left")}


def test_an_unreleased_autograd_context_is_recorded_on_every_role(tmp_path: Path) -> None:
    """It is recorded here and on every role that it has reached."""
    leaked = {"num_autograd_contexts": 1}
    assert left(run(tmp_path, partial(roles_plugin.keep_a_context, "b"))) == {"a": leaked, "b": leaked}


@pytest.mark.parametrize("play", [roles_plugin.keep_an_rref, roles_plugin.keep_an_rref_in_garbage])
def test_a_reference_that_is_kept_is_deleted_by_torchs_own_shutdown(tmp_path: Path, play: Any) -> None:
    """Nothing is left, so `left` cannot show it: a graceful shutdown deletes RRefs that a program still holds."""
    assert left(run(tmp_path, partial(play, "b"))) == {"a": {}, "b": {}}


def test_a_shutdown_waits_for_a_call_that_executes_again(tmp_path: Path) -> None:
    play = partial(rpc.rpc_sync, "b", time.sleep, args=(0.7,))
    timeline = run(tmp_path, play, "Duplicate site=time:sleep")
    assert [each.details["executions"] for each in timeline.of("effective")] == [2]


def test_moments_come_in_their_order(tmp_path: Path) -> None:
    call = f"call:{HERE}function"
    moments = ["up", "step:1", f"{call}#1", "step:2", f"{call}#2", "shutdown"]
    plan = "; ".join(f"Hold role=a at={each}@a seconds=0.01" for each in moments)
    timeline = run(tmp_path, shop.steps_and_calls, plan)
    assert [moments[each.details["fault"]] for each in timeline.of("fired")] == moments
    for role in "ab":
        own = [each.event for each in timeline.of("start", "up", "shutdown", "left") if each.role == role]
        assert own == ["start", "up", "shutdown", "left"]
    called = [each for each in timeline.of("invoke") if each.details["site"] == f"{HERE}function"]
    told = sorted([*timeline.of("fired", "shutdown"), *called], key=lambda each: each.time)
    assert [each.event for each in told if each.role == "a"] == [
        *("fired", "fired", "fired", "invoke", "fired", "fired", "invoke", "shutdown", "fired")
    ]
