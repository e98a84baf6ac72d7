"""Functions of roles in the tests of RRefs: each role holds RRefs by a key, passes them on, uses and drops them."""

from __future__ import annotations

import copy
import io
import pickle
import threading
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc

from tests.support.answers import Answer, answer

_held: dict[str, Any] = {}
_changed = threading.Condition()
_executed: list[str] = []
_go = threading.Event()
_entered = threading.Event()
_context = dist_autograd.context()


def counts() -> tuple[int, int, int]:
    """Return this role's (owner RRefs, forks that others have of them, own ones that are not confirmed yet)."""
    found = rpc._rref_context_get_debug_info()  # type: ignore[attr-defined]
    return int(found["num_owner_rrefs"]), int(found["num_forks"]), int(found["num_pending_users"])


def contexts() -> int:
    """Return the number of autograd contexts of this role."""
    return int(dist_autograd._get_debug_info()["num_autograd_contexts"])  # type: ignore[attr-defined]


# Executed on an owner.


class Node:
    """An object of an owner."""

    def __init__(self, value: int) -> None:
        self.value = value

    def get(self) -> int:
        return self.value

    def add(self, amount: int) -> int:
        self.value += amount
        return self.value


def make(value: int) -> Node:
    _executed.append("make")
    return Node(value)


def make_late(value: int) -> Node:
    """Answers after `let_go`, within 20 s."""
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
    """Use an RRef that was sent to its owner. Executed on the owner."""
    return int(rref.local_value().value)


# Executed on any role.


def hold(key: str, rref: Any) -> None:
    with _changed:
        _held[key] = rref
        _changed.notify_all()


def drop(key: str) -> None:
    del _held[key]


def create(key: str, owner: str, value: int) -> None:
    _held[key] = rpc.remote(owner, make, (value,))
    _held[key].to_here()


def create_own(key: str, value: Any) -> None:
    """Make this role the owner, without a call."""
    _held[key] = rpc.RRef(value)


def pass_on(key: str, to: str, timeout: float = 10.0) -> Answer:
    return answer(lambda: rpc.rpc_sync(to, hold, (key, _held[key]), timeout=timeout))


def fetch(key: str, timeout: float = 10.0) -> Answer:
    """Return the value of the held RRef's object, by a copy."""
    return answer(lambda: _held[key].to_here(timeout).value)


def add_by_proxy(key: str, amount: int) -> Answer:
    return answer(lambda: _held[key].rpc_sync(timeout=10).add(amount))


def same(rref: Any) -> Any:
    """Return the RRef, so that it travels there and back."""
    return rref


def holds(key: str) -> bool:
    return key in _held


def pickled(way: str, key: str) -> Answer:
    """Pickle or copy the held RRef, outside RPC."""
    ways: dict[str, Callable[[Any], Any]] = {
        "pickle": pickle.dumps,
        "copy": copy.copy,
        "deepcopy": copy.deepcopy,
        "torch.save": lambda rref: torch.save(rref, io.BytesIO()),
    }
    return answer(lambda: type(ways[way](_held[key])).__name__)


def there_and_back(key: str, by: str) -> dict[str, Any]:
    rref = _held[key]
    back = rpc.rpc_sync(by, same, (rref,))
    return {
        "is": back is rref,
        "equal": back == rref,
        "to itself": rref == _held[key],
        "same owner": back.owner() == rref.owner(),
        "same object": rref.is_owner() and back.local_value() is rref.local_value(),
        "same repr": repr(back) == repr(rref),
        "same value": back.to_here().value == rref.to_here().value,
    }


def trained(by: str) -> dict[str, list[float]]:
    """Return the gradients that reach this owner's parameter from ``by``: through its RRef, and a fetched copy."""
    found = {}
    for name, function in (("proxy", scale_by_proxy), ("fetched", scale_fetched)):
        holder = Holder()
        with dist_autograd.context() as context:
            scaled = rpc.rpc_sync(by, function, (rpc.RRef(holder),))
            dist_autograd.backward(context, [scaled.sum()])  # type: ignore[attr-defined]
            gradients = dist_autograd.get_gradients(context)  # type: ignore[attr-defined]
            found[name] = gradients[holder.parameter].tolist() if holder.parameter in gradients else []
    return found


class Holder:
    def __init__(self) -> None:
        self.parameter = torch.nn.Parameter(torch.ones(2))

    def doubled(self) -> torch.Tensor:
        return 2 * self.parameter

    def get(self) -> torch.nn.Parameter:
        return self.parameter


def scale_by_proxy(rref: Any) -> torch.Tensor:
    scaled: torch.Tensor = 3 * rref.rpc_sync().doubled()
    return scaled


def scale_fetched(rref: Any) -> torch.Tensor:
    scaled: torch.Tensor = 6 * rref.rpc_sync().get()
    return scaled


def create_with(
    key: str, owner: str, function: Callable[..., Any], argument: Any = None, timeout: float = 10.0
) -> Answer:
    """Begin the creation, and do not wait for it."""
    args = () if argument is None else (argument,)
    return answer(lambda: _held.__setitem__(key, rpc.remote(owner, function, args, timeout=timeout)))


def created(key: str) -> Answer:
    """Wait until the creation is confirmed, or has failed."""
    return answer(lambda: _held[key]._get_future().wait())


def use_by_owner(key: str, owner: str) -> Answer:
    return answer(lambda: rpc.rpc_sync(owner, value_of, (_held[key],), timeout=10))


def use_after_shutdown(owner: str) -> dict[str, Answer]:
    """Use RRefs after the shutdown. The owner must shut down, too."""
    user, own = rpc.remote(owner, make, (1,)), rpc.RRef(Node(2))
    user.to_here()
    rpc.shutdown()
    return {
        "to_here": answer(lambda: user.to_here(1)),
        "proxy": answer(lambda: user.rpc_sync(timeout=1).get()),
        "repr": answer(lambda: repr(user)[:9]),
        "is_owner": answer(user.is_owner),
        "owner_name": answer(user.owner_name),
        "own local_value": answer(lambda: own.local_value().value),
        "own to_here": answer(lambda: own.to_here().value),
        "new": answer(lambda: repr(rpc.RRef(3))[:10]),
        "remote": answer(lambda: repr(rpc.remote(owner, make, (1,)))),
    }


def await_held(key: str) -> float:
    """Return the seconds until this role holds it, at most 10."""
    begin = time.monotonic()
    with _changed:
        assert _changed.wait_for(lambda: key in _held, 10)
    return time.monotonic() - begin


def open_context(peer: str) -> None:
    """Open an autograd context on this role, which a call takes to ``peer``."""
    rpc.rpc_sync(peer, torch.mul, (torch.ones(2, requires_grad=True), _context.__enter__()))


def leave_context() -> None:
    """Leave the context. It ends when every worker that it has been to has been told."""
    _context.__exit__(None, None, None)


def call_back_and_forth(_: Any, left: int, to: str, back: str) -> None:
    """Call the other role with a new RRef, which does the same, ``left`` times; nobody waits for the calls."""
    if left:
        rpc.rpc_async(to, call_back_and_forth, args=(rpc.RRef([left]), left - 1, back, to))
