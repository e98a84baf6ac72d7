"""Tell from a call's error whether the call certainly did not happen, or may have happened."""

from __future__ import annotations

import builtins

from reference.system.error_text import telling_line, text_of

# The function itself raised, directly or through `Future.then`: torch says where.
_RAISED_THERE = ("On WorkerInfo(", "error when running the callback")
# The message was never sent, or was refused, so the call did not execute. In small letters, because transports differ
# in case.
_NEVER_SENT = ("send attempt failed intentionally", "connect: ", "connection refused")


def is_definite(error: BaseException) -> bool:
    """Whether the callee answered with an error, or the call certainly never arrived.

    After any other error (a time-out, a broken connection) the call may have executed, or may execute later.
    """
    text = text_of(error)
    if not isinstance(error, RuntimeError) or any(part in text for part in _RAISED_THERE):
        return True
    return any(part in text.lower() for part in _NEVER_SENT)


def raised_there(error: str) -> str | None:
    """Return the name of the built-in exception from which RPC made a `RuntimeError` with this text, or None."""
    name = error.split(": On WorkerInfo(", 1)[0] if ": On WorkerInfo(" in error else ""
    kind = getattr(builtins, name, None)
    return name if isinstance(kind, type) and issubclass(kind, Exception) else None


def first_line(error: BaseException) -> str:
    """Write an error as one line for a ledger: its type and its message, without the traceback."""
    return f"{type(error).__name__}: {telling_line(error)[:200]}"
