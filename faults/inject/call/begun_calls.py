"""Know at a callee which calls in flight have begun to execute, and answer the questions about them."""

from __future__ import annotations

import threading

from torch.futures import Future


class BegunCalls:
    """The calls of one callee's process. Each call begins once, and one question asks about it. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # The answer of each call that has either begun or been asked about.
        self._answers: dict[str, Future[None]] = {}

    def of(self, key: str) -> Future[None]:
        """Return the answer to the question about the call with this key: a future that is completed when it begins."""
        return self._take(key)

    def begin(self, key: str) -> None:
        """Answer the question about the call with this key, even if it is asked later."""
        self._take(key).set_result(None)

    def _take(self, key: str) -> Future[None]:
        """Return the call's future: the first one who asks for it leaves it for the second one."""
        with self._lock:
            known = self._answers.pop(key, None)
            if known is None:
                known = self._answers[key] = Future()
            return known
