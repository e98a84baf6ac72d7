"""Make one printable line of a text or a value that somebody else has written. Imports no torch.

A user's file can hold a control sequence of the terminal, half of a surrogate pair (which no output can encode), or
fifty megabytes in one word. An error that names such a value must still be one readable line.
"""

from __future__ import annotations

import io
import sys

# The longest line that is printed, and the longest value within one (characters).
LINE, VALUE = 4000, 120


class OneLine(Exception):
    """An error whose text is always one printable line of at most `LINE` characters."""

    def __init__(self, text: object = "") -> None:
        super().__init__(one_line(str(text)))


def one_line(text: str, longest: int = LINE) -> str:
    """Escape what cannot be printed in ``text``, line ends included, and leave out its middle if it is too long.

    A line that this function has made stays the same if it is passed in again.
    """
    return _without_middle(printable(_without_middle(text, longest)), longest)


def printable(text: str) -> str:
    """Replace each character of ``text`` that cannot be printed by an escape, as Python writes it."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def _without_middle(text: str, longest: int) -> str:
    """Shorten ``text`` to ``longest`` characters. Its end stays, because an error's end says what was wanted."""
    if len(text) <= longest:
        return text
    end = longest // 4
    return f"{text[: longest - end - 5]} ... {text[-end:]}"


def shown(value: object, longest: int = VALUE) -> str:
    """``repr`` of any value, on one line of at most ``longest`` characters."""
    try:
        text = repr(value[:longest]) if isinstance(value, str) else " ".join(ascii(value).split())
    except Exception as error:  # for instance an integer with more digits than Python writes
        text = f"a {type(value).__name__} that cannot be shown ({type(error).__name__})"
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def is_file_name(path: str) -> bool:
    """Whether every library accepts this as a file's name: it can be written in UTF-8, and has no NUL."""
    return "\0" not in path and not any("\ud800" <= each <= "\udfff" for each in path)


def escape_output() -> None:
    """Let standard output escape what its encoding lacks instead of raising, as standard error does."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def said(value: object) -> str:
    """``str`` of a value, or `shown` if ``str`` fails, as for a list that is nested too deeply."""
    try:
        return str(value)
    except Exception:
        return shown(value)
