"""Fan-in as plain data, and in plain Python what torch's futures make of it (torch 2.13.0): the oracle.

Two kinds of failure. A *hard* one is known to the future itself: raised in a `then`, or a call's. It passes through
`collect_all` at once, whatever is still open. A *soft* one was put there by `set_exception`: to the future that is a
value, which only turns into an error when it is read. `collect_all` waits for everything, and raises the first of
the list.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Leaf:
    """``source``: here, answered (a call, answered through a future) or waits (a call whose thread waits). ``turn``:
    the place of its completion among the leaves."""

    number: int
    source: str
    fails: bool
    turn: int


@dataclass(frozen=True)
class Branch:
    """``kind``: all (`collect_all` of the children), then or raise (a callback on the one child)."""

    number: int
    kind: str
    children: tuple[Tree, ...]


Tree = Leaf | Branch


@dataclass(frozen=True)
class Error:
    """``text``: what the error's text contains; ``hard``: see above."""

    type: str
    text: str
    hard: bool


@dataclass(frozen=True)
class Value:
    value: object


State = Error | Value | None


def nodes(tree: Tree) -> Iterator[Tree]:
    yield tree
    if isinstance(tree, Branch):
        for child in tree.children:
            yield from nodes(child)


def leaves(tree: Tree) -> list[Leaf]:
    return [node for node in nodes(tree) if isinstance(node, Leaf)]


def states(tree: Tree) -> list[list[State]]:
    """Return the state of each node before any leaf and after each completion, in the order of `nodes`."""
    known: dict[int, State] = {}
    found = []
    for turn in [-1, *sorted(leaf.turn for leaf in leaves(tree))]:
        _advance(tree, turn, known)
        found.append([known.get(node.number) for node in nodes(tree)])
    return found


def _advance(tree: Tree, turn: int, known: dict[int, State]) -> None:
    if isinstance(tree, Branch):
        for child in tree.children:
            _advance(child, turn, known)
    if known.get(tree.number) is None:  # a complete node does not change
        known[tree.number] = _leaf(tree, turn) if isinstance(tree, Leaf) else _branch(tree, known)


def _leaf(leaf: Leaf, turn: int) -> State:
    if leaf.turn > turn:
        return None
    if not leaf.fails:
        return Value(leaf.number)
    # An error that travelled as the answer keeps its type; an error of a callback does not.
    return Error(
        "RuntimeError" if leaf.source == "answered" else "ValueError", f"leaf {leaf.number}", leaf.source != "here"
    )


def _branch(branch: Branch, known: dict[int, State]) -> State:
    below = [known.get(child.number) for child in branch.children]
    if branch.kind == "all":
        return _all(below)
    if below[0] is None:
        return None
    if branch.kind == "raise":
        return Error("RuntimeError", f"branch {branch.number}", hard=True)
    if isinstance(below[0], Error):
        return Error("RuntimeError", below[0].text, hard=True)
    return Value([below[0].value])


def _all(below: list[State]) -> State:
    """Return the state of `collect_all`. At most one child completes at a time, so the first hard error is unique."""
    for each in below:
        if isinstance(each, Error) and each.hard:
            return each
    if None in below:
        return None
    soft = [each for each in below if isinstance(each, Error)]
    return soft[0] if soft else Value([each.value for each in below if isinstance(each, Value)])
