"""Announce the moments of one role as they come; a subscriber acts before the role goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress

from faults.plan.places import Moment

Action = Callable[[], object]


class Announcer:
    """The moments of one role, in its process. Actions run in the thread that announces, each once. Thread-safe,
    because each step is one operation of a dictionary.

    ``around``: what an action runs in, such as `Ledger.own_errors`.
    """

    def __init__(self, role: str, around: Callable[[], AbstractContextManager[object]] = nullcontext) -> None:
        self.role, self._around = role, around
        self._waiting: dict[Moment, list[Action]] = {}

    def subscribe(self, moment: Moment, action: Action) -> None:
        """Run ``action`` at this moment, which must be one of this role."""
        assert moment.role == self.role, (moment, self.role)
        self._waiting.setdefault(moment, []).append(action)

    def announce(self, event: str, number: int = 0, site: str = "") -> None:
        """Run the actions of this moment, at which the role has arrived."""
        if not self._waiting:  # most moments are of no interest to anybody
            return
        for action in self._waiting.pop(Moment(event, self.role, number, site), []):
            with self._around():
                action()


def hear_steps(
    announce: Callable[[int], object], failed: Callable[[logging.LogRecord], object] = lambda record: None
) -> Callable[[], None]:
    """Announce the steps of training: every log record that has a whole number as ``step``. Return the undo.

    ``failed``: called with each record at the level ERROR or above.

    It replaces `logging.Logger.callHandlers`, so that it hears loggers that do not propagate, too. A handler of its
    own at the root would keep `logging.basicConfig` of the program from working.
    """
    original = logging.Logger.callHandlers

    def call_handlers(logger: logging.Logger, record: logging.LogRecord) -> None:
        original(logger, record)
        step = getattr(record, "step", None)
        if type(step) is int:  # not True, which is an `int`, too
            announce(step)
        if record.levelno >= logging.ERROR:
            with suppress(Exception):  # arguments that do not fit the message; logging itself has said so
                failed(record)

    def undo() -> None:
        if logging.Logger.callHandlers is call_handlers:
            logging.Logger.callHandlers = original  # type: ignore[method-assign]

    logging.Logger.callHandlers = call_handlers  # type: ignore[method-assign, assignment]
    return undo
