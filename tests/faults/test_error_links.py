"""What is kept of an error: its chain of exception objects, each with its types, its text and its identity."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from faults.ledger.error_links import LINKS, TEXT, Link, first_line, from_json, links_of, of_a_handler, to_json

THERE = "On WorkerInfo(id=1, name=b):\n"


class Closed(Exception):
    """An error of a program's own."""


def lost() -> None:
    raise Closed("no")


def caught(source: str) -> Exception:
    with pytest.raises(Exception) as found:  # noqa: PT011 (each has its own)
        exec(source)
    return found.value


STATED = "try: lost()\nexcept Closed as error: raise KeyError('x') from error"
CIRCLE = "first, second = Closed('1'), Closed('2')\nfirst.__cause__, second.__cause__ = second, first\nraise first"


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("lost()", ["Closed: no"]),
        (STATED, ["KeyError: 'x'", "cause 0 Closed: no"]),  # its context is the same object
        ("try: lost()\nexcept Closed: raise KeyError('x')", ["KeyError: 'x'", "context 0 Closed: no"]),
        ("try: lost()\nexcept Closed: raise KeyError('x') from None", ["KeyError: 'x'", "context 0 Closed: no"]),
        (
            "raise ExceptionGroup('all', [Closed('1'), ExceptionGroup('more', [ValueError('2')])])",
            [
                "ExceptionGroup: all (2 sub-exceptions)",
                "member 0 Closed: 1",
                "member 0 ExceptionGroup: more (1 sub-exception)",
                "member 2 ValueError: 2",
            ],
        ),
        (CIRCLE, ["Closed: 1", "cause 0 Closed: 2"]),
    ],
)
def test_a_chain_has_each_object_once_and_the_way_to_it(source: str, wanted: list[str]) -> None:
    found = links_of(caught(source))
    assert [f"{each.way} {each.of} {each}" if each.way else str(each) for each in found] == wanted
    assert from_json(to_json(found)) == found


def test_what_a_signals_handler_raises_is_told_from_other_errors() -> None:
    """A signal's default action is a member of an enumeration, and runs no code."""

    class Refusing:
        def __call__(self, *_: object) -> None:
            lost()

    handlers = (lambda *_: lost(), partial(lambda *_: lost()), Refusing(), lambda *_: signal.Signals(999))
    before = signal.getsignal(signal.SIGUSR1)
    try:
        for handler in handlers:
            signal.signal(signal.SIGUSR1, handler)
            assert of_a_handler(caught("signal.raise_signal(signal.SIGUSR1)"))
            assert not of_a_handler(caught("lost()"))
            assert not of_a_handler(caught("signal.Signals(999)"))
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_the_class_of_the_callee_is_a_link_of_its_own() -> None:
    found = links_of(caught(STATED), lambda error: ZeroDivisionError if isinstance(error, Closed) else None)
    assert [(each.way, each.of, each.name) for each in found[1:]] == [
        ("cause", 0, "Closed"),
        ("callee", 1, "ZeroDivisionError"),
    ]
    assert found[2] == Link(("ZeroDivisionError", "ArithmeticError", "Exception"), way="callee", of=1)


def test_the_same_object_has_one_identity_wherever_it_is_met_even_in_another_process() -> None:
    error = caught("lost()")
    (first,), (again,) = links_of(error), links_of(error)
    wrapped = links_of(ExceptionGroup("all", [error]))[1]
    copied = links_of(pickle.loads(pickle.dumps(error)))[0]
    assert first.identity
    assert {first.identity} == {again.identity, wrapped.identity, copied.identity}
    assert links_of(caught("lost()"))[0].identity != first.identity  # an equal one


def test_objects_of_two_processes_with_one_id_are_told_apart() -> None:
    """They may be of two machines or containers."""
    text = (
        "import os; os.getpid = lambda: 7; from faults.ledger.error_links import links_of; "
        "print(links_of(ValueError())[0].identity)"
    )
    variables = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    first, second = (subprocess.check_output([sys.executable, "-c", text], env=variables, timeout=60) for _ in range(2))
    assert first != second


def test_a_member_that_is_a_cause_as_well_is_a_member() -> None:
    found = links_of(caught("try: lost()\nexcept Closed as error: raise ExceptionGroup('all', [error]) from error"))
    assert [(each.way, each.name) for each in found] == [("", "ExceptionGroup"), ("member", "Closed")]


class Unread(Exception):
    """It answers no question for an attribute, and does not tell its cause."""

    def __getattr__(self, name: str) -> object:
        raise OSError(name)

    @property
    def __cause__(self) -> BaseException:  # type: ignore[override]
        raise OSError


class Sealed(Exception):
    """It takes no further attributes, and cannot say what it is."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        raise TypeError

    def __str__(self) -> str:
        raise ValueError


def test_an_error_that_answers_nothing_is_known_by_its_class() -> None:
    assert links_of(Unread("x")) == [Link(("Unread", "Exception"), "x")]
    assert links_of(Sealed()) == [Link(("Sealed", "Exception"))]
    assert links_of(BaseException("x"))[0].types == ("BaseException",)


def test_chains_and_texts_are_cut() -> None:
    assert len(links_of(ExceptionGroup("all", [Closed(str(number)) for number in range(LINKS + 5)]))) == LINKS
    assert links_of(Closed("x" * (TEXT + 5)))[0].text == "x" * TEXT


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ValueError(f"{THERE}ValueError('no')\nTraceback\n  File"), "ValueError('no')"),
        (RuntimeError("'On WorkerInfo(id=1, name=b):\\nKeyError(\\'no\\')\\nTraceback'"), "KeyError('no')"),
        (RuntimeError("  eof \n more"), "eof"),
        (RuntimeError(THERE.strip()), THERE.strip()),
        (RuntimeError(""), ""),
    ],
)
def test_an_error_says_its_first_telling_line(error: Exception, says: str) -> None:
    assert links_of(error)[0].text == says
    assert first_line(error) == f"{type(error).__name__}: {says}"
    assert first_line(Closed("x" * 1000)) == f"Closed: {'x' * 200}"


@pytest.mark.parametrize(
    "value",
    [
        *(7, "Closed", [7], [{}], [{"types": []}], [{"types": 7}], [{"types": ["Closed", 7]}]),
        *([{"types": ["Closed"], name: 7}] for name in ("text", "identity", "way", "place", "odd")),
        *([{"types": ["Closed"], "of": of}] for of in (-1, 1, "0")),
        [{"types": ["Closed"]}, {"types": ["Closed"], "of": False}],
        [{"types": ["Closed"], "way": "odd"}],
        [{"types": ["Closed"]}] * (LINKS + 1),
    ],
)
def test_what_no_process_writes_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^no links? of an error: "):
        from_json(value)
