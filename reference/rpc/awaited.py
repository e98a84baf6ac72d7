"""Hold an object that RPC calls wait for, because they may arrive before the object is made."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

T = TypeVar("T")


class Awaited(Generic[T]):
    """One object of a role: the role's own thread sets it, RPC threads get it.

    Args:
        what: the name of the object in the error of a call that waited in vain.
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
        """Return the object as soon as it is set.

        Raises:
            TimeoutError: it was not set within ``timeout`` seconds.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self.value is not None, timeout):
                raise TimeoutError(f"no {self.what} on this role after {timeout} s")
            assert self.value is not None
            return self.value
