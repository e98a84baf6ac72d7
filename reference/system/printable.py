"""Make one printable line of a text or a value that somebody else has written. Imports no torch.

A user's file can hold a control sequence of the terminal, half of a surrogate pair, which no output can encode, and
fifty megabytes in one word. Errors name what they got all the same.
"""

from __future__ import annotations

import io
import sys

# The longest line that is printed, and the longest value within one (characters).
LINE, VALUE = 4000, 120


class OneLine(Exception):
    """Its text is one printable line of at most `LINE` characters, whatever it is made of."""

    def __init__(self, text: object = "") -> None:
        super().__init__(one_line(str(text)))


def one_line(text: str, longest: int = LINE) -> str:
    """``text`` with escapes for what cannot be printed, line ends among it; its middle is left out if it is too long.

    A line that this has made comes back as it is.
    """
    return _without_middle(printable(_without_middle(text, longest)), longest)


def printable(text: str) -> str:
    """``text`` with an escape, as Python writes it, for each character that cannot be printed."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def _without_middle(text: str, longest: int) -> str:
    """At most ``longest`` characters: an error's end says what was wanted."""
    if len(text) <= longest:
        return text
    end = longest // 4
    return f"{text[: longest - end - 5]} ... {text[-end:]}"


def shown(value: object, longest: int = VALUE) -> str:
    """``repr`` on one line of at most ``longest`` characters, whatever the value."""
    try:
        text = repr(value[:longest]) if isinstance(value, str) else " ".join(ascii(value).split())
    except Exception as error:  # for instance an integer with more digits than Python writes
        text = f"a {type(value).__name__} that cannot be shown ({type(error).__name__})"
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def is_file_name(path: str) -> bool:
    """Whether every library takes this for a file's name: it is UTF-8, and has no NUL."""
    return "\0" not in path and not any("\ud800" <= each <= "\udfff" for each in path)


def escape_output() -> None:
    """Let standard output, as standard error does, escape what its encoding lacks instead of raising."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def said(value: object) -> str:
    """``str``, also of a value that has none, such as a list that is nested too deeply."""
    try:
        return str(value)
    except Exception:
        return shown(value)
