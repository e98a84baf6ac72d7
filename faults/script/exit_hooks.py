"""Run hooks in every way out of a process that Python's `atexit` does not see.

Imported at the start of Python, so that a program which keeps `os._exit` before it imports torch, such as by
``atexit.register(os._exit, 0)``, has kept what leads to ``doors``. So this needs nothing but the standard library.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

# What really executes each of them, by its name in `os`. All others of `os.exec*` end in one of the two.
doors: dict[str, Callable[..., Any]] = {"_exit": os._exit, "execv": os.execv, "execve": os.execve}


def watch() -> None:
    """Of this process, and of those that are forked from it. A second time this changes nothing."""
    for name in doors:
        setattr(os, name, partial(_through, name))


def _through(name: str, /, *arguments: Any, **named: Any) -> Any:
    return doors[name](*arguments, **named)
