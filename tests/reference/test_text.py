"""Errors, and any text or value, as one printable line."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faults.ledger.ledger import value_text
from reference.system.text import LINE, VALUE, OneLine, cause_of, is_file_name, one_line, printable, shown
from tests.support.roles_plain import Mute

THERE = "On WorkerInfo(id=1, name=b):"


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (RuntimeError(f"{THERE}\nValueError: x\nTraceback"), "ValueError: x"),
        (KeyError(f"{THERE}\nKeyError('no')\nTraceback"), "KeyError('no')"),
        (RuntimeError("  eof \n more"), "eof"),
        (RuntimeError(THERE), THERE),
        (RuntimeError(""), "RuntimeError"),
        (Mute(), "Mute"),
    ],
)
def test_the_cause_is_the_first_line_that_says_what_happened(error: Exception, cause: str) -> None:
    assert cause_of(error) == cause


ANY = st.text(st.characters(), max_size=50) | st.text(st.characters(exclude_categories=[]), max_size=50)


@given(text=ANY, longest=st.integers(20, 60))
def test_any_text_is_one_printable_line_and_stays_it(text: str, longest: int) -> None:
    line = one_line(text, longest)
    assert line.isprintable()
    assert len(line) <= longest
    assert one_line(line, longest) == line
    if text.isprintable() and len(text) <= longest:
        assert line == text


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\nb", r"a\nb"),
        ("\x1b[31m\0", r"\x1b[31m\x00"),
        ("\ud800é", r"\ud800é"),
        ("\u202e\u2028", r"\u202e\u2028"),
        ("a  b'\"", "a  b'\""),
    ],
    ids=ascii,
)
def test_what_cannot_be_printed_is_escaped(text: str, line: str) -> None:
    assert printable(text) == one_line(text) == line


def test_a_long_lines_beginning_and_end_are_kept() -> None:
    line = one_line("begin" + "x" * 10**6 + "wanted that")
    assert len(line) == 4000  # as docs/commands.md says
    assert line.startswith("beginx")
    assert line.endswith("xwanted that")
    assert " ... " in line
    assert len(one_line("\0" * 10**6)) == LINE


def test_a_value_is_shown_on_one_short_line_without_writing_it_all() -> None:
    assert shown("x" * 10**7) == f"'{'x' * (VALUE - 4)}..."
    assert shown(10**5000) == "a int that cannot be shown (ValueError)"
    assert shown("a\nb") == r"'a\nb'"
    assert len(shown(["x" * 1000] * 1000, 60)) == 60


def test_a_value_without_a_text_has_one_all_the_same() -> None:
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]
    assert value_text("a b") == "a b"
    assert value_text([1]) == "[1]"
    assert value_text(nested) == "a list that cannot be shown (RecursionError)"


def test_an_errors_text_is_one_line_however_it_is_raised() -> None:
    class Refused(OneLine, ValueError):
        pass

    assert str(Refused("a\nb")) == r"a\nb"
    assert len(str(Refused("x" * 10**6))) == LINE
    assert str(Refused()) == ""
    again = pickle.loads(pickle.dumps(OneLine("\0" * 10)))
    assert type(again) is OneLine
    assert str(again) == r"\x00" * 10


@pytest.mark.parametrize(("name", "holds"), [("a/é", True), ("", True), ("a\0", False), ("\ud800", False)])
def test_a_files_name_is_utf8_without_nul(name: str, holds: bool) -> None:
    assert is_file_name(name) is holds
