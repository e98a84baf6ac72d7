"""What roles do that hold RRefs and autograd contexts. Lines that tests name end with a comment that names them."""

from __future__ import annotations

import atexit
import functools
import gc
import inspect
import sys
import weakref
from typing import Any, ClassVar

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc

from faults import leaks

# What a role keeps in globals until `release`.
kept: list[Any] = []
shown: dict[str, Any] = {}


class Node:
    """A value that keeps RRefs."""

    every: ClassVar[weakref.WeakSet[Node]] = weakref.WeakSet()

    def __init__(self) -> None:
        self.peers: list[Any] = []
        self.every.add(self)

    def link(self, peer: Any) -> None:
        self.peers.append(peer)

    def show(self, rref: Any) -> None:
        kept.append(rref)

    def unlink(self) -> None:
        self.peers.clear()


class Agent(Node):
    """A value that keeps an RRef to itself, as in torch's tutorial of reinforcement learning."""

    def __init__(self) -> None:
        super().__init__()
        self.link(rpc.RRef(self))


class Shelf(list[Any]):
    """A list that can be referred to weakly."""


def line(name: str) -> str:
    """Return file and number of the line that ends with this comment."""
    source, _ = inspect.getsourcelines(sys.modules[__name__])
    (number,) = [n for n, text in enumerate(source, 1) if text.rstrip().endswith(f"# {name}")]
    return f"tests/support/roles_leaks.py:{number}"


def trace(role: str) -> None:
    """Trace every role but those whose names say otherwise."""
    if not role.startswith("untraced"):
        leaks.trace()


def batch() -> list[int]:
    return [1]


def show(rref: Any) -> None:  # shown
    shown["rref"] = (rref,)


def hand_out() -> Any:
    return rpc.RRef(Node())  # handed out


def hand_out_two() -> Any:
    return [rpc.RRef(Node()), rpc.RRef(Node())]


def hand_out_in_a_partial() -> Any:
    return functools.partial(show, rpc.RRef(Node()))  # handed out in a partial


def release() -> None:
    """Release what this role keeps, with the values of RRefs to which no variable leads."""
    gc.callbacks[:] = [each for each in gc.callbacks if each is not _make_an_rref]
    kept.clear()
    shown.clear()
    atexit.unregister(close)
    for node in list(Node.every):
        node.unlink()


report = leaks.report


def report_beside_a_variable(peer: str) -> leaks.Report:
    rref = rpc.remote(peer, batch)  # in use
    assert rref.to_here() == [1]
    return leaks.report()


def keep(owner: str, other: str) -> None:
    """Keep an RRef in a global here, and another fork of it at another role."""
    kept.append(rpc.remote(owner, batch))  # kept
    rpc.rpc_sync(other, show, args=(kept[0],))  # passed on
    rpc.remote(owner, torch.add, args=(torch.ones(1), 1))  # which carries no RRef


def show_with(function: Any, first: Any, rref: Any = None) -> None:  # shown with a function
    shown["rref"] = (rref or first,)


def hand_over(owner: str, other: str) -> None:
    """Let another role keep an RRef that it gets with a function, which gets none."""
    rpc.rpc_sync(other, show_with, args=(batch, rpc.remote(owner, batch)))


def hand_over_with_an_object(owner: str, other: str) -> None:
    """Call a method on an object of another role by a helper, as the tutorials do."""
    shown["node"] = rpc.remote(other, Node)
    rpc.rpc_sync(other, show_with, args=(Node.link, shown["node"], rpc.remote(owner, batch)))


def keep_an_answer_with_two(owner: str, _: str) -> None:
    kept.extend(rpc.rpc_sync(owner, hand_out_two))


def fetch_two(owner: str, _: str) -> None:
    kept.extend(rpc.remote(owner, hand_out_two).to_here())


def keep_all(*rrefs: Any) -> None:
    kept.extend(rrefs)


def keep_two_arguments(owner: str, other: str) -> None:
    rpc.rpc_sync(other, keep_all, args=(rpc.remote(owner, batch), rpc.remote(owner, batch)))


def make_a_batch(owner: str) -> Any:
    return rpc.remote(owner, batch)


def make_by_one_helper(owner: str, _: str) -> None:
    shown["first"] = make_a_batch(owner)
    shown["second"] = make_a_batch(owner)


def keep_three(owner: str) -> None:
    for _ in range(3):
        kept.append(rpc.remote(owner, batch))
        kept[-1].to_here()


def show_by_a_proxy(owner: str, other: str) -> None:
    shown["node"] = rpc.remote(other, Node)
    for _ in range(2):
        shown["node"].rpc_sync().show(rpc.remote(owner, batch))


def keep_the_answer(owner: str) -> None:
    kept.append(rpc.rpc_async(owner, hand_out).wait())  # answered


def hand_out_in_a_dictionary() -> Any:
    return {"handed out": [hand_out()]}


def keep_a_part_of_the_answer(owner: str) -> None:
    kept.append(rpc.rpc_sync(owner, hand_out_in_a_dictionary))  # answered in part


def keep_an_answer_with_others(owner: str) -> None:
    kept.append(rpc.remote(owner, hand_out).to_here())  # fetched


def call_the_answer(owner: str) -> None:
    """Both a partial and a call of torch have a ``func``."""
    rpc.rpc_sync(owner, hand_out_in_a_partial)()  # called at once


def tie(left: str, right: str) -> leaks.Report:
    """Let two values refer to each other, and report while variables lead there."""
    first = rpc.remote(left, Node)  # first
    second = rpc.remote(right, Node)  # second
    first.rpc_sync().link(second)
    second.rpc_sync().link(first)
    return leaks.report()


def hold_by_a_value(left: str, right: str) -> leaks.Report:
    """Report while a variable leads to a value, which leads to another."""
    first = rpc.remote(left, Node)
    first.rpc_sync().link(rpc.remote(right, Node))  # linked
    return leaks.report()


def close(_: object) -> None:
    """Stand for what a program does at exit."""


def drop_an_agent() -> None:
    Agent()


def _make_an_rref(*_: object) -> None:
    kept.append(rpc.RRef(1))


def make_rrefs_at_collections() -> None:
    """Make RRefs whenever garbage is collected, as before each answer to `leaks.report`."""
    gc.callbacks.append(_make_an_rref)


def keep_an_agent_until_exit(what: str) -> None:
    """Let `atexit` refer to an agent, to an object of it or to the RRef, and nothing else."""
    agent = Agent()
    atexit.register(close, {"value": agent, "between": agent.peers, "RRef": agent.peers[0]}[what])


def keep_a_copied_value_until_exit() -> None:
    """Let `atexit` refer to a list that torch has copied for an RRef, and that holds this RRef."""
    shelf = Shelf([rpc.RRef(Node())])
    shelf.append(rpc.RRef(shelf))
    atexit.register(close, shelf)


def keep_the_second_rref_of_a_value(other: str) -> None:
    agent = Agent()
    agent.link(rpc.RRef(agent))
    rpc.rpc_sync(other, show, args=(agent.peers[1],))


def enter() -> leaks.Report:
    with dist_autograd.context():  # entered
        return leaks.report()


def enter_for_good() -> int:
    return dist_autograd.context().__enter__()  # abandoned


def leave(number: int) -> None:
    dist_autograd._release_context(number)  # type: ignore[attr-defined]
