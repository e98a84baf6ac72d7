"""Run hooks in every way out of a process that Python's `atexit` does not see.

This module is imported at the start of Python. So a program that stores `os._exit` before it imports torch, such as by
``atexit.register(os._exit, 0)``, has stored the function that leads to ``doors``. It needs only the standard library.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

# The function that executes each way out, by its name in `os`. All other `os.exec*` call one of the two.
doors: dict[str, Callable[..., Any]] = {"_exit": os._exit, "execv": os.execv, "execve": os.execve}


def watch() -> None:
    """Lead every way out of this process, and of its forked children, through ``doors``. A second call changes
    nothing."""
    for name in doors:
        setattr(os, name, partial(_through, name))


def _through(name: str, /, *arguments: Any, **named: Any) -> Any:
    return doors[name](*arguments, **named)
