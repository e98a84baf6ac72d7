"""What something unseen holds beside values of RRefs: found by the count of references, and by nothing else."""

from __future__ import annotations

import atexit
import contextvars
import ctypes
import functools
import gc
import queue
import signal
import threading
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest
import torch

from faults.ledger.snapshot import UNSEEN, VALUE, Ident
from faults.tracing.holders import NOBODY, Holder, holders

RREF: Ident = (0, 1)
HELD = contextvars.ContextVar[Any]("HELD")


class RRef:
    """What is looked for."""


class Helper:
    __slots__ = ("__weakref__", "agent", "rref")

    def __init__(self) -> None:
        self.rref = RRef()


class Agent(torch.nn.Module):
    """The value of an RRef. An object of it holds an RRef."""

    def __init__(self) -> None:
        super().__init__()
        self.policy = torch.nn.Linear(2, 2)
        self.helper = Helper()
        self.kept: list[Any] = []

    def work(self) -> None:
        """Do nothing."""


PLACES: dict[str, Callable[[Agent], Any]] = {
    "Agent": lambda agent: agent,
    "Helper": lambda agent: agent.helper,
    "RRef": lambda agent: agent.helper.rref,
}


def close(_: object, *received: object, **more: object) -> None:
    """Stand for the work of a handler."""


def _in_a_context_variable(what: Any, stack: ExitStack) -> None:
    HELD.set(what)  # a variable with the token would lead to it
    stack.callback(HELD.set, None)


def _in_a_call_at_exit(what: Any, stack: ExitStack) -> None:
    atexit.register(close, what)
    stack.callback(atexit.unregister, close)


def _in_a_handler_of_a_signal(what: Any, stack: ExitStack) -> None:
    stack.callback(signal.signal, signal.SIGUSR1, signal.signal(signal.SIGUSR1, functools.partial(close, what)))


def suspended(what: Any) -> Iterator[Any]:
    yield
    yield what


def _an_error(agent: Agent) -> None:
    try:
        raise LookupError
    except LookupError as error:
        agent.kept.append(error)


def _a_generator(agent: Agent) -> None:
    agent.kept.append(suspended(agent))
    next(agent.kept[-1])


def _hooks(agent: Agent) -> None:
    agent.register_forward_hook(lambda *_: agent.work())
    agent.policy.weight.register_hook(lambda _: agent.work())


# Ways in which a value refers to itself, or what it holds to the value.
KNOTS: dict[str, Callable[[Agent], None]] = {
    "nothing": lambda agent: None,
    "an object with slots": lambda agent: setattr(agent.helper, "agent", agent),
    "itself twice": lambda agent: agent.kept.extend([agent, (agent, agent.kept)]),
    "a bound method": lambda agent: agent.kept.append(agent.work),
    "a method of a built-in type": lambda agent: agent.kept.extend([agent, agent.kept.append]),
    "a closure": lambda agent: agent.kept.append(lambda: agent),
    "a partial": lambda agent: agent.kept.append(functools.partial(close, agent, agent=agent)),
    "collections": lambda agent: agent.kept.extend(
        [deque([agent]), OrderedDict(agent=agent), defaultdict(list, agent=[agent]), {agent.helper}, {1: {2: agent}}]
    ),
    "a thread that does not run": lambda agent: agent.kept.append(threading.Thread(target=agent.work)),
    "locks": lambda agent: agent.kept.extend([threading.Lock(), threading.Condition(), queue.Queue()]),
    "its dictionary": lambda agent: agent.kept.append(vars(agent)),
    "an error with its traceback": _an_error,
    "a generator": _a_generator,
    "hooks of a module and a tensor": _hooks,
}


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as undo:
        yield undo
    gc.collect()


def value_of_an_rref(change: Callable[[Agent], object], keys: list[int], stack: ExitStack) -> dict[int, Any]:
    """Return the values of the only RRef, to which this alone and C++ refer. Put the identity of what is looked for
    into ``keys``. When ``stack`` ends, the value is released with what it refers to."""
    agent = Agent()
    change(agent)
    keys.append(id(agent.helper.rref))
    reference = ctypes.py_object(agent)
    ctypes.pythonapi.Py_IncRef(reference)  # as torch's OwnerRRef does
    stack.callback(_release, id(agent))
    return {id(agent): (agent, RREF)}


def _release(key: int) -> None:
    agent = ctypes.cast(key, ctypes.py_object).value
    with suppress(AttributeError):
        del agent.helper
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(agent))


def holder(change: Callable[[Agent], object], stack: ExitStack) -> Holder:
    keys: list[int] = []
    gc.collect()
    return holders(keys, value_of_an_rref(change, keys, stack), "b", ())[keys[0]]


@pytest.mark.long
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("keep", [_in_a_context_variable, _in_a_call_at_exit, _in_a_handler_of_a_signal])
def test_what_something_unseen_holds_is_in_use(
    keep: Callable[[Any, ExitStack], None], place: str, stack: ExitStack
) -> None:
    found = holder(lambda agent: keep(PLACES[place](agent), stack), stack)
    what = "something refers that Python does not see, such as a context variable or atexit,"
    named = Holder(UNSEEN, f"the object ({place}) to which {what}")
    assert found == (NOBODY if place == "RRef" else named)


@pytest.mark.long
@pytest.mark.parametrize("knot", KNOTS)
def test_what_only_a_value_holds_is_told_however_the_value_refers_to_itself(knot: str, stack: ExitStack) -> None:
    assert holder(KNOTS[knot], stack) == Holder(VALUE, "the value (Agent) of RRef 1 of b", (RREF,))
