"""What roles play in the tests of RRefs: each role holds RRefs by a key, passes them on, uses them and drops them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch.distributed.rpc as rpc

_held: dict[str, Any] = {}
_executed: list[str] = []
_go = threading.Event()
_entered = threading.Event()


@dataclass(frozen=True)
class Seen:
    """A value, or an error's type and text; and the seconds it took."""

    value: Any
    error: str
    text: str
    seconds: float


def seen(work: Callable[..., Any], *args: Any) -> Seen:
    start = time.monotonic()
    try:
        value, error, text = work(*args), "", ""
    except Exception as raised:
        value, error, text = None, type(raised).__name__, str(raised)
    return Seen(value, error, text, time.monotonic() - start)


def counts() -> tuple[int, int, int]:
    """What this role keeps: (owner RRefs, forks that others have of them, own ones that are not confirmed yet)."""
    found = rpc._rref_context_get_debug_info()  # type: ignore[attr-defined]
    return int(found["num_owner_rrefs"]), int(found["num_forks"]), int(found["num_pending_users"])


# On an owner.


class Node:
    """An object of an owner, which may hold an RRef to another's."""

    def __init__(self, value: int) -> None:
        self.value = value
        self.other: Any = None

    def get(self) -> int:
        return self.value

    def add(self, amount: int) -> int:
        self.value += amount
        return self.value


def make(value: int) -> Node:
    _executed.append("make")
    return Node(value)


def refuse() -> None:
    _executed.append("refuse")
    raise KeyError("no such thing")


def refuse_with(kind: str) -> None:
    raise {"ValueError": ValueError, "KeyError": KeyError, "Odd": Odd}[kind]("no such thing")


class Odd(Exception):
    """An exception type of one's own."""


def make_late(value: int) -> Node:
    """Not before `let_go`, at most 20 s."""
    _entered.set()
    assert _go.wait(20)
    return make(value)


def await_entered() -> bool:
    return _entered.wait(10)


def let_go() -> None:
    _go.set()


def executed() -> list[str]:
    return _executed


def value_of(rref: Any) -> int:
    """The owner uses an RRef that it was sent."""
    return int(rref.local_value().value)


# Everybody.


def hold(key: str, rref: Any) -> None:
    _held[key] = rref


def drop(key: str) -> None:
    del _held[key]


def create(key: str, owner: str, value: int, *, confirm: bool = True) -> None:
    _held[key] = rpc.remote(owner, make, (value,))
    if confirm:
        _held[key].to_here()


def create_own(key: str, value: Any) -> None:
    """This role becomes the owner, without a call."""
    _held[key] = rpc.RRef(value)


def pass_on(key: str, to: str, timeout: float = 10.0) -> Seen:
    return seen(lambda: rpc.rpc_sync(to, hold, (key, _held[key]), timeout=timeout))


def fetch(key: str, timeout: float = 10.0) -> Seen:
    """The value of the held RRef's object, by a copy."""
    return seen(lambda: _held[key].to_here(timeout).value)


def add_by_proxy(key: str, amount: int) -> Seen:
    return seen(lambda: _held[key].rpc_sync(timeout=10).add(amount))


def same(rref: Any) -> Any:
    return rref


def same_t(r):
    t = r.to_here()
    return (type(t).__name__, t.requires_grad, t.is_leaf)
