"""The words of a plan's text form."""

from __future__ import annotations

import re
import shlex

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from faults.plan.places import PlanError
from faults.plan.text import pairs, split


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("", []),
        (" ;\n;; \t", []),
        ("a b=1", [["a", "b=1"]]),
        ("a;b", [["a"], ["b"]]),
        ("a;\r\n  b c\n\n;d;", [["a"], ["b", "c"], ["d"]]),
        ("a t='x; y\nz' u=\"it's\"", [["a", "t=x; y\nz", "u=it's"]]),
        (r"a t=x\;y\ z", [["a", "t=x;y z"]]),
        ("a # b", [["a", "#", "b"]]),
        ("a '' b", [["a", "", "b"]]),
        (r"""a'\"' "\a\"\\" \'""", [['a\\"', '\\a"\\', "'"]]),
        ("a ';' b", [["a", ";", "b"]]),
        ("a t=''", [["a", "t="]]),
        ("a(b) & | <c>", [["a(b)", "&", "|", "<c>"]]),
        ("# a 'b\n \t# c\nd\n#\ne f#g", [["d"], ["e", "f#g"]]),
        ("a; # b", [["a"], ["#", "b"]]),
        ("a t='x\n# y' b", [["a", "t=x\n# y", "b"]]),
    ],
)
def test_words_are_separated_as_in_a_shell(text: str, groups: list[list[str]]) -> None:
    assert split(text) == groups


@example("a 'b")
@example('a "')
@example("a \\")
@given(st.text("ab;\n \t\r'\"\\\\=#", max_size=12))
def test_words_are_those_of_a_shell(text: str) -> None:
    """Python's `shlex` gives the same words, but its time grows with the square of the text, and a quoted semicolon
    that stands alone separates there. Its comments may begin within a line, and those of plans may not."""
    assume(not re.search(r"^[ \t\r]*#", text, re.MULTILINE))
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    wanted: list[list[str]] = [[]]
    try:
        for word in lexer:
            if word and set(word) <= set(";\n"):
                wanted.append([])
            else:
                wanted[-1].append(word)
    except ValueError as error:
        with pytest.raises(PlanError, match=rf"^not a plan: .* \({error}\)$"):
            split(text)
        return
    found = split(text)
    assume(not any(word and set(word) <= set(";\n") for group in found for word in group))
    assert found == [group for group in wanted if group]


@pytest.mark.parametrize("name", ["nth", "seed", "seconds"])
def test_a_text_that_is_no_number_is_refused(name: str) -> None:
    for value in ("", "x", "1,5", "9" * 5000 + "x", "0x10", "true"):
        with pytest.raises(PlanError, match=rf"^Kind: '{name}' must be an? (integer|number), got '"):
            pairs([f"{name}={value}"], "Kind")
