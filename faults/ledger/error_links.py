"""Record what an error is: its chain of exception objects, each with its types, its text and its identity.

The chain is what Python knows of an exception: what it was raised from (``__cause__``), what was being handled when it
was raised (``__context__``), and the members of a group. RPC makes another exception at the caller than the callee
raised, so the callee's class is a link of its own. Nothing is read from a text.
"""

from __future__ import annotations

import itertools
import os
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from functools import partial
from types import CodeType
from typing import Any

from reference.system.text import telling_line

# How much is kept: characters of a text, and links of a chain.
TEXT, LINKS = 400, 40

# The ways in which a link belongs to another one. `ITSELF` is the error that was met.
ITSELF, CAUSE, CONTEXT, MEMBER, CALLEE = "", "cause", "context", "member", "callee"
WAYS = (ITSELF, CAUSE, CONTEXT, MEMBER, CALLEE)

# The attribute that an exception is known by. It is pickled with the exception.
_MARK = "_faults_identity"
_numbers = itertools.count(1)
# Processes of two machines or containers may have the same id.
_HERE = os.urandom(4).hex()


@dataclass(frozen=True)
class Link:
    """One exception of a chain.

    ``types``: the names of its class and of the classes that this derives from, without `object` and `BaseException`;
    ``identity``: the same wherever the same object is met again, empty if the object cannot be marked or is not here;
    ``way``: one of `WAYS`; ``of``: the number of the link that it is the cause, context, member or callee's error of.
    """

    types: tuple[str, ...]
    text: str = ""
    identity: str = ""
    way: str = ITSELF
    of: int = 0

    @property
    def name(self) -> str:
        return self.types[0]

    def __str__(self) -> str:
        return f"{self.name}: {self.text}" if self.text else self.name


def links_of(
    error: BaseException, callee_of: Callable[[BaseException], type[BaseException] | None] = lambda _: None
) -> list[Link]:
    """Return the chain of an exception, itself first. ``callee_of``: returns the class that the callee of a call raised
    which failed by this exception, None for any other one."""
    found = [_link(error, ITSELF, 0)]
    seen, todo = {id(error)}, [(0, error)]
    for number, each in todo:  # breadth first; the list grows
        if (kind := callee_of(each)) is not None:
            found.append(Link(types_of(kind), way=CALLEE, of=number))
        with suppress(Exception):  # a class whose cause or members cannot be read
            for way, other in _next(each):
                if id(other) not in seen and len(found) < LINKS:
                    seen.add(id(other))
                    todo.append((len(found), other))
                    found.append(_link(other, way, number))
    return found[:LINKS]


def _next(error: BaseException) -> Iterator[tuple[str, BaseException]]:
    if isinstance(error, BaseExceptionGroup):  # first, because a member may be a cause as well
        for each in error.exceptions:
            yield MEMBER, each
    if error.__cause__ is not None:
        yield CAUSE, error.__cause__
    if error.__context__ is not None:
        yield CONTEXT, error.__context__


def _link(error: BaseException, way: str, of: int) -> Link:
    return Link(types_of(type(error)), telling_line(error)[:TEXT], _identity(error), way, of)


def types_of(kind: type) -> tuple[str, ...]:
    return tuple(each.__name__ for each in kind.__mro__ if each not in (object, BaseException)) or (kind.__name__,)


def _identity(error: BaseException) -> str:
    with suppress(Exception):  # a class that takes no further attributes, or whose attributes fail
        known = getattr(error, _MARK, None)
        if isinstance(known, str):
            return known
        mark = f"{_HERE}.{os.getpid()}.{next(_numbers)}"
        setattr(error, _MARK, mark)
        return mark
    return ""


def of_a_handler(error: BaseException) -> bool:
    """Whether a handler of a signal has raised it. Then it is the program's error, in whatever the signal has met."""
    codes = {_code_of(signal.getsignal(each)) for each in signal.valid_signals()}
    return any(frame.f_code in codes for frame, _ in traceback.walk_tb(error.__traceback__))


def _code_of(handler: Any) -> CodeType | None:
    while isinstance(handler, partial):
        handler = handler.func
    if not callable(handler):  # the default action
        return None
    return getattr(handler, "__code__", None) or getattr(type(handler).__call__, "__code__", None)


def first_line(error: BaseException) -> str:
    """Write an error as one line: its type and its message, without the traceback."""
    return f"{type(error).__name__}: {telling_line(error)[:200]}"


def to_json(links: Sequence[Link]) -> list[dict[str, Any]]:
    """Return plain data, without the fields that are empty."""
    return [{name: value for name, value in asdict(each).items() if value} for each in links]


def from_json(value: Any) -> list[Link]:
    """Read the links that `to_json` wrote. Raises ValueError: something else."""
    try:
        found = [Link(**{**each, "types": tuple(each["types"])}) for each in value or ()]
    except (TypeError, KeyError) as error:
        raise ValueError(f"no links of an error: {error}") from error
    texts = [item.name for item in fields(Link) if item.name not in ("types", "of")]
    for number, each in enumerate(found):
        right = bool(each.types) and all(isinstance(name, str) for name in each.types)
        right &= all(isinstance(getattr(each, name), str) for name in texts) and each.way in WAYS
        if not (right and type(each.of) is int and 0 <= each.of <= number and len(found) <= LINKS):
            raise ValueError(f"no link of an error: {each!r}")
    return found
