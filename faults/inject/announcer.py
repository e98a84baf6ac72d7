"""Announce the moments of one role as they come; a subscriber acts before the role goes on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from faults.plan.moment import Moment

Action = Callable[[], object]


class Announcer:
    """The moments of one role, in its process. Actions run in the thread that announces, each once. Thread-safe."""

    def __init__(self, role: str) -> None:
        self.role = role
        self._waiting: dict[Moment, list[Action]] = {}
        self._lock = threading.Lock()

    def subscribe(self, moment: Moment, action: Action) -> None:
        """Run ``action`` at this moment, which must be one of this role."""
        assert moment.role == self.role, (moment, self.role)
        with self._lock:
            self._waiting.setdefault(moment, []).append(action)

    def announce(self, event: str, number: int = 0, site: str = "") -> None:
        """Run the actions of this moment, at which the role has arrived."""
        with self._lock:
            actions = self._waiting.pop(Moment(event, self.role, number, site), [])
        for action in actions:
            action()

    def awaits(self, event: str) -> bool:
        """Whether an action still waits for a moment of this kind."""
        with self._lock:
            return any(moment.event == event for moment in self._waiting)


class StepHandler(logging.Handler):
    """Announces the steps of training: every log record that has a whole number as ``step``."""

    def __init__(self, announcer: Announcer) -> None:
        super().__init__(logging.NOTSET)
        self.announcer = announcer

    def emit(self, record: logging.LogRecord) -> None:
        step = getattr(record, "step", None)
        if type(step) is int:  # not True, which is an `int`, too
            self.announcer.announce("step", step)
