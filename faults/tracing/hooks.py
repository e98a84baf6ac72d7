"""Replace the functions of torch by which RRefs and autograd contexts come, go and are used, and put them back.

Only `torch.distributed` is changed. Programs have these functions through its modules and classes alone, so importing
one of its public functions by name before or after makes no difference.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch.distributed.autograd as dist_autograd
from torch._C._distributed_rpc import PyRRef
from torch.distributed.rpc import api, internal

from faults.tracing.rrefs import RRefs
from faults.tracing.user_frames import Line, here

# A context's id has the worker's id above these bits, and the worker's number for it below.
BITS = 48


@dataclass
class Open:
    """A context that was entered. ``got``: the number of this event; ``entered``: the object of the ``with`` statement,
    None for `_new_context`."""

    lines: tuple[Line, ...]
    got: int
    entered: weakref.ref[Any] | None = None


class Contexts:
    """The autograd contexts of one process that it has not left. ``count``: numbers the events."""

    def __init__(self, count: Callable[[], int]) -> None:
        self._open: dict[int, Open] = {}
        self._count = count

    def new(self, number: int) -> None:
        """Remember a context that was just made."""
        self._open[number] = Open(here(), self._count())

    def enter(self, number: int, entered: Any) -> None:
        """Remember the object that leaves this context."""
        self._open[number].entered = weakref.ref(entered)

    def leave(self, number: int) -> None:
        """Forget a context that was released."""
        self._open.pop(number, None)
        self._count()

    def clear(self) -> None:
        """Forget everything, as when RPC has shut down."""
        self._open.clear()

    def living(self, since: int) -> Iterator[tuple[int, tuple[Line, ...], bool]]:
        """Yield number and lines of each context that is open and was entered after this event, and whether nothing is
        left that can leave it."""
        for number, each in self._open.copy().items():
            if each.got > since:
                yield number & ((1 << BITS) - 1), each.lines, each.entered is not None and each.entered() is None


_REMOTE = ("_invoke_remote_python_udf", "_invoke_remote_builtin", "_invoke_remote_torchscript")
_ASK = "_invoke_rpc_python_udf"
_NEW, _RELEASE = "_new_context", "_release_context"
_RREF = ("__init__", "_serialize", "_deserialize", "to_here", "local_value")


def missing() -> str | None:
    """Say in one line why this torch cannot be traced; None if it can."""
    absent = [name for name in (*_REMOTE, _ASK) if not hasattr(api, name)]
    absent += [name for name in _RREF if not hasattr(PyRRef, name)]
    absent += [name for name in (_NEW, _RELEASE) if not hasattr(dist_autograd, name)]
    return f"this torch has no {', '.join(absent)}" if absent else None


def hook(rrefs: RRefs, contexts: Contexts) -> ExitStack:
    """Tell ``rrefs`` and ``contexts`` what happens from now on. Closing the result puts the functions back."""
    undo = ExitStack()
    replace = partial(_replace, undo)
    for name in _REMOTE:
        replace(api, name, partial(_make, getattr(api, name), rrefs, name == _REMOTE[0]))
    replace(api, _ASK, partial(_ask, getattr(api, _ASK), rrefs))
    pickler = internal._InternalRPCPickler
    replace(pickler, "serialize", _pickling(pickler.serialize, rrefs))
    replace(pickler, "deserialize", _unpickling(pickler.deserialize, rrefs))
    replace(api, "_finalize_shutdown", partial(_forget, api._finalize_shutdown, rrefs, contexts))
    _hook_class(replace, rrefs)
    _hook_contexts(replace, contexts)
    return undo


def _replace(undo: ExitStack, owner: Any, name: str, new: Any) -> None:
    undo.callback(_put_back, owner, name, vars(owner)[name], new)
    setattr(owner, name, new)


def _put_back(owner: Any, name: str, original: Any, new: Any) -> None:
    """Put a function back, unless another one has replaced it meanwhile: a plan, which calls this one."""
    if vars(owner)[name] is new:
        setattr(owner, name, original)


def _make(original: Callable[..., Any], rrefs: RRefs, pickles: bool, *args: Any, **named: Any) -> Any:
    """Replace the functions behind `rpc.remote`. ``pickles``: Python has pickled the arguments."""
    lines = here()
    rref = original(*args, **named)
    if pickles:
        rrefs.sent_to(args[0].name, lines)
    rrefs.get(rref, "made", lines)
    return rref


def _ask(original: Callable[..., Any], rrefs: RRefs, *args: Any, **named: Any) -> Any:
    """Replace the function behind `rpc_sync` and `rpc_async` of Python functions."""
    lines = here()
    future = original(*args, **named)
    rrefs.sent_to(args[0].name, lines)
    future.add_done_callback(partial(rrefs.answered, lines))
    return future


def _forget(original: Callable[[], None], rrefs: RRefs, contexts: Contexts) -> None:
    """Replace the end of `rpc.shutdown`. The next world gives the same ids to other RRefs."""
    try:
        original()
    finally:
        rrefs.clear()
        contexts.clear()


def _pickling(original: Callable[..., Any], rrefs: RRefs) -> Callable[..., Any]:
    @functools.wraps(original)
    def serialize(self: Any, obj: Any) -> Any:
        rrefs.pickling()
        return original(self, obj)

    return serialize


def _unpickling(original: Callable[..., Any], rrefs: RRefs) -> Callable[..., Any]:
    @functools.wraps(original)
    def deserialize(self: Any, binary_data: Any, tensor_table: Any) -> Any:
        found = original(self, binary_data, tensor_table)
        rrefs.arrived_with(found)
        return found

    return deserialize


def _hook_class(replace: Callable[..., None], rrefs: RRefs) -> None:
    """Replace methods of `PyRRef`, from which `RRef` derives. Every method of the latter calls the former's."""
    first, serialize, deserialize, to_here, local_value = originals = [getattr(PyRRef, name) for name in _RREF]

    def init(self: Any, *args: Any, **named: Any) -> None:
        first(self, *args, **named)
        rrefs.get(self, "made", here())
        rrefs.value(self, args[0] if args else named.get("value"), partial(local_value, self))

    def send(self: Any) -> Any:
        data = serialize(self)
        rrefs.send(self)
        return data

    def arrive(data: Any) -> Any:
        rref = deserialize(data)
        rrefs.arrive(rref)
        return rref

    def fetch(self: Any, *args: Any, **named: Any) -> Any:
        rrefs.use(self)
        return to_here(self, *args, **named)

    def look(self: Any, *args: Any, **named: Any) -> Any:
        rrefs.use(self)
        value = local_value(self, *args, **named)
        rrefs.value(self, value, partial(local_value, self))
        return value

    replacements: list[Callable[..., Any]] = [init, send, arrive, fetch, look]
    for name, original, new in zip(_RREF, originals, replacements, strict=True):
        functools.update_wrapper(new, original)
        replace(PyRRef, name, staticmethod(new) if new is arrive else new)


def _hook_contexts(replace: Callable[..., None], contexts: Contexts) -> None:
    new, release = vars(dist_autograd)[_NEW], vars(dist_autograd)[_RELEASE]
    enter = dist_autograd.context.__enter__

    def begin() -> Any:
        context = new()
        contexts.new(context._context_id())
        return context

    def end(number: int) -> None:
        release(number)
        contexts.leave(number)

    @functools.wraps(enter)
    def entering(self: Any) -> int:
        number = enter(self)
        contexts.enter(number, self)
        return number

    replace(dist_autograd, _NEW, begin)
    replace(dist_autograd, _RELEASE, end)
    replace(dist_autograd.context, "__enter__", entering)
