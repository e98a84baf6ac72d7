"""An object that calls wait for, because they may arrive before it is made."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

T = TypeVar("T")


class Awaited(Generic[T]):
    """One object of a role, set in the role's own thread and asked for in RPC threads.

    Args:
        what: what the object is, for the error of a call that waited in vain.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self.value: T | None = None
        self._changed = threading.Condition()

    def set(self, value: T | None) -> None:
        """Answer every waiting call with ``value``; None lets calls wait again."""
        with self._changed:
            self.value = value
            self._changed.notify_all()

    def get(self, timeout: float) -> T:
        """The object, as soon as it is set.

        Raises:
            TimeoutError: it was not set within ``timeout`` seconds.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self.value is not None, timeout):
                raise TimeoutError(f"no {self.what} on this role after {timeout} s")
            assert self.value is not None
            return self.value
