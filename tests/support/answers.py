"""The end of an attempt: what a test compares, and what crosses from a role to the test."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Answer:
    """A value, or an error's type and text; and the seconds it took."""

    value: Any
    error: str
    text: str
    seconds: float

    @property
    def short(self) -> tuple[Any, str]:
        """The value or the error's text, and its type."""
        return (self.text, self.error) if self.error else (self.value, type(self.value).__name__)


def answer(attempt: Callable[..., Any], *args: Any) -> Answer:
    """Return how the attempt ends."""
    start = time.monotonic()
    try:
        value, error, text = attempt(*args), "", ""
    except Exception as raised:
        value, error, text = None, type(raised).__name__, str(raised)
    return Answer(value, error, text, time.monotonic() - start)
