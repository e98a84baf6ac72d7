"""Work that may never end, such as a wait inside torch, in a thread of its own that the process does not wait for."""

from __future__ import annotations

import threading
from collections.abc import Callable


class WorkThread(threading.Thread):
    """Begins when it is made. ``error``: what the work raised."""

    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self.work = work
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self.work()
        except Exception as error:
            self.error = error
        finally:
            del self.work  # who keeps the thread keeps nothing of the work alive

    def ends_within(self, seconds: float) -> bool:
        """Wait for the end of the work. Raises its error."""
        self.join(seconds)
        if self.error is not None:
            raise self.error
        return not self.is_alive()
