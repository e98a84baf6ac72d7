"""Tell from a call's error whether the call certainly did not happen, or may have happened."""

from __future__ import annotations

import builtins

from reference.system.error_text import telling_line, text_of

# An exception of the function itself, directly or through `Future.then`: torch says where it was raised.
_RAISED_THERE = ("On WorkerInfo(", "error when running the callback")
# The message never left, or was refused: no execution. In small letters, since transports differ in that too.
_NEVER_SENT = ("send attempt failed intentionally", "connect: ", "connection refused")


def is_definite(error: BaseException) -> bool:
    """Whether the callee has answered with an error, or the call certainly never got there.

    Everything else (a timeout, a connection that broke) may have executed, or may yet.
    """
    text = text_of(error)
    if not isinstance(error, RuntimeError) or any(part in text for part in _RAISED_THERE):
        return True
    return any(part in text.lower() for part in _NEVER_SENT)


def raised_there(error: str) -> str | None:
    """The built-in exception's name of which RPC has made a `RuntimeError` with this text, if it was made of one."""
    name = error.split(": On WorkerInfo(", 1)[0] if ": On WorkerInfo(" in error else ""
    kind = getattr(builtins, name, None)
    return name if isinstance(kind, type) and issubclass(kind, Exception) else None


def first_line(error: BaseException, limit: int = 200) -> str:
    """An error in one line for a ledger: its type, and what it says, not where it comes from."""
    return f"{type(error).__name__}: {telling_line(error)[:limit]}"
