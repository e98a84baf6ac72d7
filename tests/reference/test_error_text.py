"""An error as one line, without the layers that RPC puts around it."""

from __future__ import annotations

import pytest

from reference.system.text import cause_of, telling_line, text_of

THERE = "On WorkerInfo(id=1, name=b):"


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


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


def test_an_error_that_says_nothing_has_no_telling_line() -> None:
    assert telling_line(RuntimeError("")) == ""
    assert text_of(Mute()) == ""
