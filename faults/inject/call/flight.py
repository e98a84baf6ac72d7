"""Fail a call at its caller when it begins to execute at its callee: the ambiguous failure of a connection that breaks
while a call is in flight (`Raise side=flight`).

The caller sends two calls: first the question whether the call has begun, and then the call itself. The callee answers
the question when the function begins, or, with its error, if the call is refused before. That answer fails the caller's
future; the answer of the call itself is dropped. So the caller never fails before the callee executes, whatever the
threads of the two do.
"""

from __future__ import annotations

import itertools
import os
import threading
from typing import Any

from torch.distributed.rpc.internal import RemoteException
from torch.futures import Future

# torch's text if the peer's end of a connection closes (transport uv, torch 2.13).
TORN = "EOF: end of file (this error originated at tensorpipe/transport/uv/connection_impl.cc:132)"
# Why a `remote` cannot fail in flight.
REMOTE = "a `remote` returns its RRef at once, and has no future that could fail in flight"

_numbers = itertools.count()


def new_key(role: str) -> str:
    """Name a call in flight differently from all others of the world."""
    return f"{role} {os.getpid()} {next(_numbers)}"


def failed_by(question: Any) -> Any:
    """Return a future that fails when the question is answered.

    If the question itself fails, as the call then does too, the future has its error.
    """
    failed: Future[Any] = Future()
    question.add_done_callback(lambda answered: _fail(failed, _error_of(answered)))
    return failed


def _error_of(question: Any) -> str:
    """Wait until the question is answered, and return the text of the error that the caller gets."""
    try:
        refused = question.wait()
    except Exception as error:
        return str(error)
    return TORN if refused is None else str(refused)


def _fail(future: Future[Any], text: str) -> None:
    """Fail a future in the way in which torch fails that of a call, so that the error survives where the program passes
    the future on (`collect_all`, an asynchronous function)."""
    future._set_unwrap_func(_raise)
    future.set_result(RemoteException(text, RuntimeError))


def _raise(answer: RemoteException) -> None:
    """Raise the error as torch does, but let nobody note it as one that a callee has raised (`callee_errors`)."""
    raise RuntimeError(answer.msg)


class BegunCalls:
    """The calls of one callee's process. Each call begins once, and one question asks about it. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # The answer of each call that has either begun or been asked about.
        self._answers: dict[str, Future[str | None]] = {}

    def of(self, key: str) -> Future[str | None]:
        """Return the answer to the question about the call with this key: a future that is completed when it begins.

        Its value is the error of a call that was refused before it began, otherwise None. The first one who asks for it
        leaves it for the second one.
        """
        with self._lock:
            known = self._answers.pop(key, None)
            if known is None:
                known = self._answers[key] = Future()
            return known

    def begin(self, key: str, refused: str | None = None) -> None:
        """Answer the question about the call with this key, even if it is asked later."""
        self.of(key).set_result(refused)
