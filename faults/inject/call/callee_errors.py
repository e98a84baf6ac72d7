"""Know which class the callee of a failed call has raised, where torch keeps only a text of it.

A callee answers with its error's text and class (`RemoteException`). Whoever reads the answer makes an exception of
both, and C++ then makes a `RuntimeError` of that, with the text but without the class. So the class is noted when it is
read, with the text by which the error is found again, in whatever thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from torch.distributed.rpc.internal import RemoteException

from reference.system.text import text_of

_Answer: Any = RemoteException

# The texts of the errors that were read last, as they are and quoted, with their classes. It needs no lock, for which a
# signal's handler that makes a call could wait.
_read: deque[tuple[str, str, type[BaseException]]] = deque(maxlen=1000)
# How torch begins the text of an error that a callback of `Future.then` has raised.
_BY_CALLBACK = "Got the following error when running the callback: "


def install() -> Callable[[], None]:
    """Note each class that is read from now on. Return a function that ends that."""
    original = _Answer.exception_type

    def noted(answer: Any) -> type[BaseException]:
        kind: type[BaseException] = original.__get__(answer)
        text = answer.msg.encode().decode("unicode_escape")  # as torch makes the error's text of it
        entry = text, repr(text), kind
        with suppress(ValueError, IndexError):  # it is not there, or another thread notes a class meanwhile
            _read.remove(entry)
        _read.append(entry)
        return kind

    def undo() -> None:
        _Answer.exception_type = original
        _read.clear()

    _Answer.exception_type = property(noted)
    return undo


def raised_there(error: BaseException) -> type[BaseException] | None:
    """Return the class that a callee has raised, if this is what a caller got for it; None for any other error, also
    for one that only quotes what the caller got: torch states no cause, and makes an error of no third class."""
    said = text_of(error)
    for text, quoted, kind in reversed([*_read]):
        by_torch = type(error) in (kind, RuntimeError) and error.__cause__ is None
        if by_torch and (_is_of(kind, text, said) or _is_of(kind, quoted, said)):
            return kind
    return None


def _is_of(kind: type[BaseException], text: str, said: str) -> bool:
    """Whether C++ has made ``said`` of a callee's error, or Python has, where a `KeyError` quotes its text."""
    begins = said.startswith((text, f"{kind.__name__}: {text}"))
    return begins or (said.startswith(_BY_CALLBACK) and text in said)
