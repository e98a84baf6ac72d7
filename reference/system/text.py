"""Turn errors, values and JSON into text that a terminal can show."""

from __future__ import annotations

import io
import sys


def text_of(error: BaseException) -> str:
    """The error's text; "" if the program's own ``__str__`` fails."""
    try:
        return str(error)
    except Exception:
        return ""


def telling_line(error: BaseException) -> str:
    """The first line that says what happened. RPC puts a line before it that says only on which role it happened."""
    # A KeyError quotes its text: line ends and quotes are escaped in it.
    text = text_of(error).replace("\\n", "\n").replace("\\'", "'")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if "On WorkerInfo(" not in line), (lines or [""])[0])


def cause_of(error: BaseException) -> str:
    """What the error says in one line; its type if it says nothing."""
    return telling_line(error) or type(error).__name__


# The longest line that is printed, and the longest value within one (characters).
LINE, VALUE = 4000, 120


class OneLine(Exception):
    """An error whose text is always one printable line of at most `LINE` characters."""

    def __init__(self, text: object = "") -> None:
        super().__init__(one_line(str(text)))


class BadInput(OneLine):
    """The user's input is refused: one line, exit status 2."""


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
        text = repr(value[:longest]) if isinstance(value, str | bytes) else " ".join(ascii(value).split())
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
