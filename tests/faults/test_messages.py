"""Faults of messages: each of the ten types, late and lost, by count and time, beside calls that are not hit."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.rpc as rpc
from torch._C._distributed_rpc import RpcBackendOptions

from faults.inject import messages
from faults.judge import proof
from faults.ledger import Event, Timeline, ledger
from faults.ledger.error_links import first_line
from faults.plan import Plan, PlanError
from faults.plan.fields import MESSAGES
from reference.outcome import Raised, Returned
from reference.world import World, launch
from tests.support import roles_messages as plays
from tests.support.roles_plain import backend_in_use
from tests.support.roles_processes import planned

pytestmark = pytest.mark.long

# The delay of a message (seconds). A healthy call needs less, even on a busy machine.
LATE = 0.5
# RPC repeats its own messages after a second.
RETRY = 0.9

LOST_TEXTS = (
    "RuntimeError: RPCErr:2:Send attempt failed intentionally for ",
    "UnicodeDecodeError: 'utf-8' codec can't decode byte 0x80 in position 47: invalid start byte",
)
TEXTLESS = "RuntimeError: "


def unreadable() -> str:
    """Return what this Python makes of torch's error for a lost message that is no text."""
    set_error = ctypes.pythonapi.PyErr_SetString
    set_error.argtypes, set_error.restype = [ctypes.py_object, ctypes.c_char_p], None
    with pytest.raises((RuntimeError, UnicodeDecodeError)) as caught:
        set_error(RuntimeError, LOST_TEXTS[0].removeprefix("RuntimeError: ").encode() + b"\x80")
    return f"{caught.type.__name__}: {caught.value}"


NOT_MADE = (
    "RuntimeError: RRef creation via rpc.remote() timed out, and it is possible that the RRef on the owner node "
    "does not exist."
)


@contextmanager
def world(folder: Path, text: str = "seed=0") -> Iterator[World]:
    with launch(["a", "b", "c"], before=planned(folder, text), deadline=30) as started:
        for role in "abc":
            started.call(role, plays.counted)  # the import makes a TorchScript function known there
        yield started


def seen(folder: Path, play: Callable[[], dict[str, Any]], text: str = "seed=0") -> tuple[dict[str, Any], int]:
    """Return what ``a`` saw, and how often ``b`` has executed `count`, after an orderly shutdown of all."""
    with world(folder, text) as started:
        what = started.call("a", play), started.call("b", plays.counted)
        assert set(started.wait().values()) == {Returned(None)}
    return what


def test_what_a_signals_handler_raises_while_a_call_is_sent_leaves_it_indefinite(tmp_path: Path) -> None:
    """Python runs the handler when torch's agent has sent the call."""
    play = partial(plays.interrupted, LATE / 2)
    what, count = seen(tmp_path, play, f"Delay message=PYTHON_CALL role=a seconds={LATE}")
    assert (what["call"], count) == ("TimeoutError: too slow", 1)
    ended = [each for each in ledger.read(tmp_path).of("ok", "fail", "info") if each.role == "a"]
    assert [each.event for each in ended if str(each.details["site"]).endswith(":count")] == ["info"]


def test_the_ten_types_are_all_here() -> None:
    calls = {f"{kind}_{each}" for kind in plays.FUNCTIONS for each in ("CALL", "REMOTE_CALL", "RREF_FETCH_CALL")}
    assert {*calls, *KEPT, "RREF_FORK_REQUEST"} == set(MESSAGES)
    assert messages.missing() is None  # the agent must exist here: no test of this file may be skipped


# What is called, its first value, and how often `b` counts an execution.
KINDS = pytest.mark.parametrize(("kind", "value", "executed"), [("PYTHON", 1, 1), ("SCRIPT", 2, 0)])


@KINDS
def test_a_late_call_is_late_at_its_sender_each_time(tmp_path: Path, kind: str, value: int, executed: int) -> None:
    late, count = seen(tmp_path, partial(plays.two_calls, kind), f"Delay message={kind}_CALL role=a seconds={LATE}")
    assert [each for _, each in late.values()] == [value, 2]
    assert min(seconds for seconds, _ in late.values()) >= LATE
    assert count == 2 * executed


def test_a_lost_python_call_never_executes_and_the_shutdown_of_the_leader_fails(tmp_path: Path) -> None:
    """The same call again has the same payload, which is not lost a second time. Any other payload is lost first."""
    with world(tmp_path, "Drop message=PYTHON_CALL role=a times=1") as started:
        lost = started.call("a", plays.two_calls)
        assert started.call("b", plays.counted) == 1
        leader = started.wait()["a"]
    assert lost["first"][1].startswith(LOST_TEXTS[0])
    assert lost["again"][1] == 1
    assert isinstance(leader, Raised)
    assert leader.message.startswith("Followers [")
    assert "The first exception is RPCErr:2:Send attempt failed intentionally for " in leader.message


def test_a_lost_script_call_is_an_error_that_cannot_be_read(tmp_path: Path) -> None:
    lost, _ = seen(tmp_path, partial(plays.two_calls, "SCRIPT"), "Drop message=SCRIPT_CALL role=a times=1")
    assert lost["first"][1] == unreadable()
    assert lost["again"][1] == 2
    assert lost["again"][0] < LATE


@KINDS
def test_creating_an_rref_late_and_lost(tmp_path: Path, kind: str, value: int, executed: int) -> None:
    play, message = partial(plays.remote, kind), f"{kind}_REMOTE_CALL"
    late, count = seen(tmp_path / "late", play, f"Delay message={message} role=a seconds={LATE}")
    assert late["fetch"][1] == value
    assert count == executed
    assert late["remote"] >= LATE
    lost, count = seen(tmp_path / "lost", play, f"Drop message={message} role=a times=1")
    assert lost["fetch"][1] == NOT_MADE
    assert count == 0
    assert lost["remote"] + lost["fetch"][0] < LATE  # the error says "timed out", but comes at once


@KINDS
def test_fetching_a_value_late_and_lost(tmp_path: Path, kind: str, value: int, executed: int) -> None:
    play, message = partial(plays.two_fetches, kind), f"{kind}_RREF_FETCH_CALL"
    late, count = seen(tmp_path / "late", play, f"Delay message={message} role=a seconds={LATE}")
    assert [each for _, each in late.values()] == [value, value]
    assert count == executed
    assert min(seconds for seconds, _ in late.values()) >= LATE
    lost, count = seen(tmp_path / "lost", play, f"Drop message={message} role=a times=1")
    assert [each for _, each in lost.values()] == [unreadable(), value]
    assert lost["again"][0] < LATE
    assert count == executed


def test_a_late_and_a_lost_request_for_a_fork(tmp_path: Path) -> None:
    """The role that receives the RRef sends the request, and repeats it after a second."""
    late, _ = seen(tmp_path / "late", plays.fork_request, f"Delay message=RREF_FORK_REQUEST role=c seconds={LATE}")
    assert late["pass"][1] == 1
    assert late["pass"][0] >= LATE
    lost, _ = seen(tmp_path / "lost", plays.fork_request, "Drop message=RREF_FORK_REQUEST role=c times=1")
    assert lost["pass"][1] == 1
    assert lost["pass"][0] >= RETRY
    other, _ = seen(tmp_path / "other", plays.fork_request, f"Delay message=RREF_FORK_REQUEST role=a seconds={LATE}")
    assert other["pass"][0] < LATE


# The function, the sender, what is late at the sender, and what shows the arrival.
KEPT = {
    "RREF_CHILD_ACCEPT": (plays.child_accept, "c", None, "given up"),
    "RREF_USER_DELETE": (plays.user_delete, "a", "del", "forgotten"),
    "CLEANUP_AUTOGRAD_CONTEXT_REQ": (plays.autograd_cleanup, "a", "leave", "forgotten"),
}


@pytest.mark.parametrize("message", KEPT)
def test_giving_up_what_an_owner_keeps_late_and_lost(tmp_path: Path, message: str) -> None:
    """Nothing fails: the owner only keeps the value longer."""
    play, sender, blocked, arrived = KEPT[message]
    healthy, _ = seen(tmp_path / "healthy", play)
    assert healthy.get("owned", 1) == 1
    assert healthy[arrived] < LATE
    late, _ = seen(tmp_path / "late", play, f"Delay message={message} role={sender} seconds={LATE}")
    assert LATE <= late[blocked or arrived] < 10
    lost, _ = seen(tmp_path / "lost", play, f"Drop message={message} role={sender} times=1")
    assert RETRY <= lost[arrived] < 10
    assert lost["forgotten"] < 10


def test_a_late_call_executes_although_its_caller_has_given_up(tmp_path: Path) -> None:
    with world(tmp_path, f"Delay message=PYTHON_CALL role=a seconds={LATE}") as started:
        seconds, error = started.call("a", plays.call_within, 0.1)
        assert error.startswith("RuntimeError: RPCErr:1:RPC ran for more than set timeout (100 ms)")
        assert seconds >= LATE  # the timeout does not end the wait of the sending thread
        started.call("a", plays.two_calls)  # this call waits behind it on the same pipe
        assert started.call("b", plays.counted) == 3


def test_calls_with_gradients_pass_the_agent(tmp_path: Path) -> None:
    """Calls with gradients within a context of distributed autograd pass it; a call to oneself does not."""
    with world(tmp_path, "Drop message=PYTHON_CALL role=a times=9; Drop message=SCRIPT_CALL role=a times=9") as started:
        context = started.call("a", plays.call_in_context)
        assert [value for _, value in context.values()] == [2.0, 1]
        assert started.call("a", plays.two_calls)["first"][1].startswith(LOST_TEXTS[0])
        assert started.call("a", plays.call_oneself)[1].startswith(LOST_TEXTS[0])


def test_only_the_named_role_delays_messages_but_every_role_has_the_agent(tmp_path: Path) -> None:
    with world(tmp_path, f"Delay message=PYTHON_CALL role=c seconds={LATE}") as started:
        assert {started.call(role, backend_in_use) for role in "abc"} == {"FaultyTensorPipeAgent"}
        assert max(seconds for seconds, _ in started.call("a", plays.two_calls).values()) < LATE
        assert min(seconds for seconds, _ in started.call("c", plays.two_calls).values()) >= LATE


def test_no_role_spins_in_shared_memory(tmp_path: Path) -> None:
    """The thread of that transport would take a core of every role. The limit that prevents it is lifted afterwards."""
    with world(tmp_path, "Delay message=PYTHON_CALL role=c seconds=0.1") as started:
        assert started.call("a", plays.threads_of_transports) & {"TP_UV_loop", "TP_SHM_reactor"} == {"TP_UV_loop"}
        assert {started.call(role, plays.file_limit) for role in "abc"} == {plays.file_limit()}


def test_without_message_faults_nothing_is_changed_nor_imported(tmp_path: Path) -> None:
    backend, options, plan = object(), object(), "Crash role=a at=step:9@b"
    assert messages.backend_for(Plan.parse(plan), "a", backend, options, 2) == (backend, options)
    with world(tmp_path, plan) as started:
        assert started.call("a", backend_in_use) == "TensorPipeAgent"
        assert started.call("a", plays.settings) == (60.0, False)


def test_the_programs_options_stay_under_the_faulty_agent(tmp_path: Path) -> None:
    """A fault without a role is every role's."""
    plan = Plan.parse(
        "Delay message=PYTHON_CALL role=a seconds=2; Drop message=SCRIPT_CALL role=b times=3; "
        "Delay message=RREF_USER_DELETE seconds=1"
    )
    given = rpc.TensorPipeRpcBackendOptions(num_worker_threads=7, rpc_timeout=11, init_method="tcp://x:1")
    for role, late, lost in (("a", {"PYTHON_CALL": 2.0}, []), ("b", {}, ["SCRIPT_CALL"]), ("c", {}, [])):
        backend, options = messages.backend_for(plan, role, rpc.BackendType["TENSORPIPE"], given, 2)
        assert backend is rpc.backend_registry.BackendType["FAULTY_TENSORPIPE"]
        assert options.num_worker_threads == 7
        assert options.rpc_timeout == 11.0
        assert options.init_method == "tcp://x:1"
        assert options.messages_to_delay == {**late, "RREF_USER_DELETE": 1.0}
        assert options.messages_to_fail == lost
        assert options.num_fail_sends == (3 if role == "b" else 0)
    defaults = messages.backend_for(plan, "a", None, None, 2)[1]
    assert defaults.num_worker_threads == 16
    assert defaults.rpc_timeout == 60.0
    assert defaults.init_method == "env://"


PLAN = Plan.parse("Delay message=PYTHON_CALL role=a seconds=2")


def test_another_backend_is_refused() -> None:
    with pytest.raises(PlanError, match=r"^faults of messages need the backend TENSORPIPE, got 'TENSORPIPE'$"):
        messages.backend_for(PLAN, "a", "TENSORPIPE", None, 2)
    wanted = r"^faults of messages need TensorPipeRpcBackendOptions, got RpcBackendOptions$"
    with pytest.raises(PlanError, match=wanted):
        messages.backend_for(PLAN, "a", None, RpcBackendOptions(), 2)


def test_device_maps_are_refused() -> None:
    options = rpc.TensorPipeRpcBackendOptions()
    base = vars(rpc.TensorPipeRpcBackendOptions.__mro__[1])
    base["device_maps"].fset(options, {"b": {torch.device("cpu"): torch.device("cpu")}})
    wanted = r"^faults of messages: the faulty agent cannot have 'device_maps' or 'devices'$"
    with pytest.raises(PlanError, match=wanted):
        messages.backend_for(PLAN, "a", None, options, 2)


def test_a_world_that_anybody_may_join_is_refused() -> None:
    """torch's faulty agent fails there by a TypeError in one role, and the others wait for it."""
    with pytest.raises(PlanError, match=r"^faults of messages: the faulty agent needs a world_size, got None$"):
        messages.backend_for(PLAN, "a", None, None, None)


def test_a_torch_without_the_agent_refuses_plans_that_need_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch._C, "_faulty_agent_init")
    assert messages.backend_for(Plan(), "a", None, None, 2) == (None, None)
    reason = f"torch {torch.__version__} was built without its faulty agent (torch.distributed.rpc._testing)"
    with pytest.raises(PlanError) as caught:
        messages.backend_for(PLAN, "a", None, None, 2)
    assert str(caught.value) == f"the plan has faults of messages: {reason}"


def timeline(*events: tuple[str, str, dict[str, Any]]) -> Timeline:
    found = (Event(role, event, float(at), details) for at, (role, event, details) in enumerate(events))
    return Timeline(tuple(found), {}, ("a", "b"))


def proofs(text: str, *events: tuple[str, str, dict[str, Any]]) -> list[str | None]:
    return [text for _, text in proof.proofs_of(Plan.parse(text), timeline(*events)).values()]


LOST = "Drop message=PYTHON_CALL role=a times=1"
NONE_MADE = "Drop message=PYTHON_REMOTE_CALL times=1"
# The ledger's line ends before the payload if that begins a new line: with the words of the error, without the blank.
CUT = first_line(RuntimeError("RPCErr:2:Send attempt failed intentionally for \n\x80\x02c"))


class TestEvidence:
    @pytest.mark.parametrize(
        ("plan", "role", "event", "via", "error", "shown"),
        [
            (LOST, "a", "fail", "rpc", LOST_TEXTS[0], True),
            (LOST, "a", "fail", "rpc", LOST_TEXTS[1], True),
            (LOST, "a", "fail", "rpc", CUT, True),
            (LOST, "b", "fail", "rpc", LOST_TEXTS[0], False),
            (LOST, "a", "fail", "remote", LOST_TEXTS[0], False),
            (LOST, "a", "info", "rpc", "RuntimeError: RPCErr:1:RPC ran for more than set timeout (2000 ms)", False),
            # The error of older Pythons is evidence for a lost creation only, if the call was sent.
            (NONE_MADE, "a", "info", "remote", TEXTLESS, True),
            (NONE_MADE, "a", "fail", "remote", TEXTLESS, False),
            (LOST, "a", "info", "rpc", TEXTLESS, False),
            # An RRef that was not made is evidence unless another fault may be why.
            (NONE_MADE, "a", "fail", "remote", NOT_MADE, True),
            (f"{NONE_MADE}; Crash role=b at=up@a", "a", "fail", "remote", NOT_MADE, False),
        ],
    )
    def test_errors_that_only_a_lost_message_makes_are_evidence(
        self, plan: str, role: str, event: str, via: str, error: str, shown: bool
    ) -> None:
        found = proofs(plan, (role, event, {"via": via, "error": error, "to": role}))
        assert found == [f"a: {error[:120]}" if shown else None]

    def test_there_are_two_unreadable_errors(self) -> None:
        assert unreadable() in (LOST_TEXTS[1], TEXTLESS)
        assert CUT.endswith(" for")

    def test_a_delay_is_proven_only_if_every_call_was_late(self) -> None:
        slow = ("a", "ok", {"via": "rpc", "seconds": 0.61, "to": "b"})
        fast = ("a", "ok", {"via": "rpc", "seconds": 0.1, "to": "b"})
        oneself = ("a", "ok", {"via": "rpc", "seconds": 0.1, "to": "a"})
        late = "Delay message=PYTHON_CALL role=a seconds=0.5"
        assert proofs(late, slow, slow, oneself) == ["each of 2 calls took 0.610 s or more"]
        assert proofs(late, slow, fast) == [None]
        assert proofs(late) == [None]

    def test_some_messages_are_shown_by_no_recorded_call(self) -> None:
        made, lost = "PYTHON_REMOTE_CALL", "Drop message={} times=1"
        for message in MESSAGES:
            found = proof.unseen(Plan.parse(lost.format(message)), timeline())
            assert found == {0: message not in ("PYTHON_CALL", made)}
        beside = "; Crash role=b at=up@a"  # which may be why an RRef was not made, too
        assert proof.unseen(Plan.parse(lost.format(made) + beside), timeline()) == {0: True}
        assert proof.unseen(Plan.parse(lost.format("PYTHON_CALL") + beside), timeline()) == {0: False}
        shown = timeline(("a", "fail", {"via": "rpc", "error": LOST_TEXTS[0]}))
        assert proof.unseen(Plan.parse(LOST), shown) == {}
