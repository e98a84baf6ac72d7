"""Delay and Drop of RPC's own messages, by the faulty agent that torch has for its tests.

This is the only file that touches that private interface (`torch.distributed.rpc._testing`). The agent works at the
sender, knows the ten requests of `fields.MESSAGES`, and gives no receipt: `evidence` finds the proof in recorded calls.
"""

from __future__ import annotations

import enum
import importlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch
import torch.distributed.rpc as rpc

from faults.ledger import Event, Timeline
from faults.moment import PlanError
from faults.plan import Fault, Plan

BACKEND = "FAULTY_TENSORPIPE"
# How the error of a lost message begins. What follows is the message itself, and where that is no text, the error
# cannot even be made: then it is a UnicodeDecodeError at the message's first byte.
LOST = "RPCErr:2:Send attempt failed intentionally for"  # and a blank, which a ledger's line may end before
UNREADABLE = f"can't decode byte 0x80 in position {len(LOST) + 1}"
# What `RRef.to_here` says when the message that was to create the RRef is lost, or late, or its owner gone.
NOT_MADE = "RRef creation via rpc.remote() timed out"
# Which recorded calls can show what became of a message.
_CALLS: Mapping[str, str] = {
    "PYTHON_CALL": "rpc",
    "PYTHON_REMOTE_CALL": "remote",
}


def missing() -> str | None:
    """Why there is no faulty agent here, or None. Imports nothing but what torch has imported, so changes nothing."""
    if not rpc.is_available():
        return "this torch has no RPC"
    if not hasattr(torch._C, "_faulty_agent_init"):
        return f"torch {torch.__version__} was built without its faulty agent (torch.distributed.rpc._testing)"
    return None


def backend_for(plan: Plan, role: str, backend: Any, options: Any) -> tuple[Any, Any]:
    """What `rpc.init_rpc` is to be given instead of ``backend`` and ``options``, in any role of the plan.

    Both as they are where the plan has no messages. Else every role gets the faulty agent, hurt or not: TENSORPIPE
    begins with a collective that the faulty one does not take part in.

    Raises:
        PlanError: no faulty agent in this torch; another backend; options that it cannot have.
    """
    faults = plan.at("message")
    if not faults:
        return backend, options
    reason = missing()
    if reason is not None:
        raise PlanError(f"the plan has faults of messages: {reason}")
    _check(backend, options)
    testing: Any = importlib.import_module("torch.distributed.rpc._testing")
    own = [fault for fault in faults.values() if fault.role in (None, role)]
    lost, late = _lost(own), _late(own)
    given = options if options is not None else rpc.TensorPipeRpcBackendOptions()
    chosen = testing.FaultyTensorPipeRpcBackendOptions(
        num_worker_threads=given.num_worker_threads,
        rpc_timeout=given.rpc_timeout,
        init_method=given.init_method,
        messages_to_fail=lost,
        messages_to_delay=late,
        num_fail_sends=max((fault.times or 0 for fault in own), default=0),
    )
    # Taken now: the import has replaced this enumeration, and `rpc.BackendType` is the old one.
    return rpc.backend_registry.BackendType[BACKEND], chosen


def _check(backend: Any, options: Any) -> None:
    if backend is not None and not (isinstance(backend, enum.Enum) and backend.name == "TENSORPIPE"):
        raise PlanError(f"faults of messages need the backend TENSORPIPE, got {backend!r}")
    if options is not None and not isinstance(options, rpc.TensorPipeRpcBackendOptions):
        raise PlanError(f"faults of messages need TensorPipeRpcBackendOptions, got {type(options).__name__}")
    if options is not None and (options.device_maps or options.devices):
        raise PlanError("faults of messages: the faulty agent cannot have 'device_maps' or 'devices'")


def _lost(own: Iterable[Fault]) -> list[str]:
    return list(dict.fromkeys(str(fault.message) for fault in own if fault.kind == "Drop"))


def _late(own: Iterable[Fault]) -> dict[str, float]:
    return {str(fault.message): float(fault.seconds or 0) for fault in own if fault.kind == "Delay"}


def evidence(plan: Plan, timeline: Timeline) -> dict[int, str | None]:
    """For each message fault what in the recorded calls proves that it bit; None: nothing there, which proves nothing.

    A call's ``ok``, ``fail`` or ``info`` has ``via`` (``rpc``: `rpc_sync` and `rpc_async`; ``remote``), the ``seconds``
    that it took its caller, and the ``error``'s text. A Delay is proven where each such call took at least as long, so
    give it more seconds than a healthy call needs. Calls of TorchScript functions and fetches of an RRef's value are
    not recorded; nor does a call show RREF_FORK_REQUEST, RREF_CHILD_ACCEPT, RREF_USER_DELETE and
    CLEANUP_AUTOGRAD_CONTEXT_REQ: their effect is what others keep, and when.
    """
    return {number: None if found is None else found[1] for number, found in _proofs(plan, timeline).items()}


def unseen(plan: Plan, timeline: Timeline) -> dict[int, bool]:
    """For each message fault without evidence whether that says nothing, since no recorded call could have shown it."""
    without = [number for number, text in evidence(plan, timeline).items() if text is None]
    return {number: not _shows(plan, plan.faults[number]) for number in without}


def _shows(plan: Plan, fault: Fault) -> bool:
    """Whether a recorded call tells of it, if it happens."""
    via = _CALLS.get(str(fault.message))
    return via is not None and (fault.kind == "Delay" or via == "rpc" or _alone(plan))


def _alone(plan: Plan) -> bool:
    """Whether nothing else of the plan can be why an RRef was not made."""
    return not plan.at("process") and not plan.at("network")


def bites(plan: Plan, timeline: Timeline) -> dict[int, Event | None]:
    """For each message fault the first call by which `evidence` proves it, when it began, or None."""
    return {number: None if found is None else _begun(found[0]) for number, found in _proofs(plan, timeline).items()}


def _begun(call: Event) -> Event:
    """A call's end, at the time of its beginning: the end may be written after its caller has already failed."""
    return replace(call, time=call.time - float(call.details.get("seconds", 0.0)))


def _proofs(plan: Plan, timeline: Timeline) -> dict[int, tuple[Event, str] | None]:
    alone, ended = _alone(plan), timeline.of("ok", "fail", "info")
    by_role: dict[str | None, list[Event]] = {None: ended}
    for each in ended:
        by_role.setdefault(each.role, []).append(each)
    return {
        number: _proof(fault, _concerned(fault, by_role.get(fault.role, [])), alone)
        for number, fault in plan.at("message").items()
    }


def _concerned(fault: Fault, ended: Iterable[Event]) -> list[Event]:
    """The calls of its role whose message this fault hits. One to oneself is lost like any other, and never late."""
    return [
        each
        for each in ended
        if each.details.get("via") == _CALLS.get(str(fault.message), "nothing that is recorded")
        and (fault.kind == "Drop" or each.details.get("to") != each.role)
    ]


def _proof(fault: Fault, calls: list[Event], alone: bool) -> tuple[Event, str] | None:
    if fault.kind == "Delay":
        seconds = [float(each.details.get("seconds", 0.0)) for each in calls]
        if seconds and min(seconds) >= float(fault.seconds or 0):
            return calls[0], f"each of {len(seconds)} calls took {min(seconds):.3f} s or more"
        return None
    for each in calls:
        error = str(each.details.get("error", ""))
        if LOST in error or UNREADABLE in error or (alone and NOT_MADE in error):
            return each, f"{each.role}: {error.splitlines()[0][:120]}"
    return None
