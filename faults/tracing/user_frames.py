"""Find the program's own lines on a stack: not torch's, not this project's `faults`, not those of Python's library."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import sysconfig
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch

# A line of a program, from which `text_of` makes a text: code and line number.
Line = tuple[CodeType, int]
# The innermost frames of the program that are remembered.
DEPTH = 16

_PACKAGES = tuple(f"{sysconfig.get_path(name)}{os.sep}" for name in ("purelib", "platlib"))
_PYTHON = tuple(f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "platstdlib"))
_TORCH = f"{Path(torch.__file__).parent}{os.sep}"
_FAULTS = f"{Path(__file__).parents[1]}{os.sep}"


@functools.cache
def is_users(file: str) -> bool:
    """Whether a file of Python code is the program's own, or of an installed package other than torch."""
    if file.startswith(("<frozen ", _TORCH)) or is_faults(file):
        return False
    return is_library(file) or not file.startswith(_PYTHON)


def is_library(file: str) -> bool:
    """Whether a file belongs to an installed package."""
    return file.startswith(_PACKAGES)


def is_faults(file: str) -> bool:
    """Whether a file belongs to `faults`, whose frames and variables are not the program's."""
    return file.startswith(_FAULTS)


def here() -> tuple[Line, ...]:
    """Return the lines of the program on the current stack, the innermost first; empty in a thread of torch."""
    found: list[Line] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and len(found) < DEPTH:
        code = frame.f_code
        if is_users(code.co_filename):
            found.append((code, frame.f_lineno))
        frame = frame.f_back
    return tuple(found)


def line_of(function: Any) -> tuple[Line, ...]:
    """Return the first line of a function, or of a class's ``__init__``; empty if that is no code of the program."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    generated = ""
    if isinstance(function, type):
        function, generated = function.__init__, "<string>"  # type: ignore[misc]  # of a data class
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType) or code.co_filename == generated or not is_users(code.co_filename):
        return ()
    return ((code, code.co_firstlineno),)


def text_of(line: Line) -> str:
    """Write a line as ``shop.py:41 in pay``. A file in the current folder, or below it, is named from there."""
    code, number = line
    return f"{_shown(code.co_filename)}:{number} in {code.co_qualname}"


def _shown(file: str) -> str:
    try:
        relative = os.path.relpath(file)
    except (OSError, ValueError):  # the current folder was removed; the code has no file
        return file
    return file if relative.startswith(os.pardir) else relative
