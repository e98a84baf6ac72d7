"""Count, record and hurt what torch's engine sends for a program: fetches of RRefs, and gradients."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.distributed.rpc as rpc
from torch._C._distributed_rpc import _is_current_rpc_agent_set
from torch.distributed.rpc import PyRRef  # type: ignore[attr-defined]
from torch.distributed.rpc.internal import PythonUDF, RemoteException, _handle_exception, _internal_rpc_pickler

from faults.inject.call.delivery import CalleeState, Delivery, deliver
from faults.inject.call.envelope import Envelope
from faults.inject.call.replies import completed
from faults.plan.fields import BACKWARD, TO_HERE

if TYPE_CHECKING:
    from faults.inject.call.calls import Calls

_RRef: Any = PyRRef


def value_of(rref: Any) -> Any:
    """Return the value of an RRef, at its owner. It blocks its RPC thread until the value is there."""
    return rref.local_value()


class Refused(NamedTuple):
    """The answer to a fetch that failed: the error as a value, because of an error RPC keeps few classes."""

    error: Any


def answer_fetch(envelope: Envelope, rref: Any) -> Any:
    """Execute a fetch with faults, at the RRef's owner. Answer an error as torch's own fetch does, by a value."""
    try:
        return deliver(envelope, value_of, (rref,), {})
    except Exception as error:
        text = str(error.args[0]) if error.args else ""
        if not text.startswith("On WorkerInfo("):  # not the error of the function that should have made the value
            text = f"On {rpc.get_worker_info()}:\n{error!r}"
        # Whoever reads the answer takes escapes of Unicode out of the text.
        refused = Refused(RemoteException(text.encode("unicode_escape").decode(), type(error)))
        return completed(refused) if envelope.answers_later else refused


def hook_fetches(calls: Calls) -> Callable[[], None]:
    """Replace `to_here` of all RRefs, and return a function that puts it back."""
    original = _RRef.to_here

    def to_here(rref: Any, timeout: float = -1.0) -> Any:
        # After the shutdown nothing is sent, and torch says so.
        at_once = not _is_current_rpc_agent_set() or rref.is_owner()
        return original(rref, timeout) if at_once else _fetch(calls, original, rref, timeout)

    _RRef.to_here = to_here
    return partial(setattr, _RRef, "to_here", original)


def _fetch(calls: Calls, original: Callable[[Any, float], Any], rref: Any, timeout: float) -> Any:
    with calls.ledger.own_errors():
        owner = rref.owner_name()
        numbers, envelope = calls.begin((TO_HERE,), owner, later=False)
        note = {"site": TO_HERE, "nth": numbers[TO_HERE], "to": owner, "via": "to_here"}
        calls.invoked(note, timeout, envelope)
    start = time.monotonic()
    try:
        value = original(rref, timeout) if envelope is None else _call(calls, envelope, rref, timeout)
    except Exception as error:
        calls.write_failed(note, start, error)
        raise
    calls.ledger.write("ok", **note, seconds=time.monotonic() - start)
    return value


def _call(calls: Calls, envelope: Envelope, rref: Any, timeout: float) -> Any:
    call = PythonUDF(answer_fetch, (envelope, rref), {})
    answer = calls.send_directly(rref.owner(), call, timeout, envelope.answers_later).wait()
    if isinstance(answer, Refused):
        _handle_exception(answer.error)
    return answer


_PICKLER: Any = _internal_rpc_pickler
_OPERATION = "torch::distributed::autograd::RecvRpcBackward"


def hook_gradients(calls: Calls) -> Callable[[], None]:
    """See every message as it is unpickled. Return a function that stops that."""
    original = _PICKLER.deserialize

    def deserialize(binary: bytes, tensors: Sequence[torch.Tensor]) -> Any:
        message = original(binary, tensors)
        found = [tensor for tensor in tensors if tensor.requires_grad]
        if found and isinstance(message, PythonUDF):
            return message._replace(func=partial(_heard, calls, message.func, found))
        _hook(calls, found)
        return message

    _PICKLER.deserialize = deserialize
    return partial(delattr, _PICKLER, "deserialize")


def _heard(
    calls: Calls, function: Callable[..., Any], tensors: Sequence[torch.Tensor], /, *args: Any, **kwargs: Any
) -> Any:
    _hook(calls, tensors)
    return function(*args, **kwargs)


def _hook(calls: Calls, tensors: Sequence[torch.Tensor]) -> None:
    """Hook the operation of a message, which all of its tensors share."""
    operation = next((tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None), None)
    if operation is not None and operation.name() == _OPERATION:
        operation.register_prehook(partial(_before, calls))


def _before(calls: Calls, gradients: tuple[torch.Tensor | None, ...]) -> tuple[torch.Tensor | None, ...] | None:
    """Run in the engine's thread before the gradients of one message are sent. After the plan's end do nothing."""
    callee = CalleeState.open
    if callee is None or callee.ledger is not calls.ledger:
        return None
    with calls.ledger.own_errors():
        numbers, envelope = calls.begin((BACKWARD,), later=False)
        hit = {} if envelope is None else {"faults": list(envelope.faults)}
        calls.ledger.write("gradient", site=BACKWARD, nth=numbers[BACKWARD], **hit)
    return None if envelope is None else _hurt(Delivery(callee, envelope), envelope, gradients)


def _hurt(delivery: Delivery, envelope: Envelope, gradients: Any) -> Any:
    """Apply the faults to the gradients, in the order of the plan, and return what is sent instead."""
    for number, fault in envelope.faults.items():
        if fault.kind == "Corrupt":
            gradients = delivery.corrupter.message(number, fault, gradients)
        else:
            delivery.before(number, fault)
    return gradients
