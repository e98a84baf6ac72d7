"""Reduce an error to one line, even if it came over RPC. Imports no torch."""

from __future__ import annotations


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
