"""The form of the published behaviours behind docs/errata.md: the function that shows each, and how it fails.

    @shows("S4.3", gives=[8, 4, 2, 1])
    def split_by_size() -> list[int]: ...

The modules beside this one register them. A behaviour runs on role ``worker0`` of a world of three, or with
``here=True`` in the test's own process.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch


@dataclass(frozen=True)
class Behaviour:
    """One erratum and the function that shows it. The function gives a value, or raises a type with a first line."""

    number: str
    function: Callable[[], Any]
    gives: object
    raises: tuple[str, str] | None
    here: bool


BEHAVIOURS: dict[str, Behaviour] = {}


def shows(
    *numbers: str, gives: object = None, raises: tuple[str, str] | None = None, here: bool = False
) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Register the function below as what these errata do. In a text, "…" stands for an id or an address."""

    def register(function: Callable[[], Any]) -> Callable[[], Any]:
        assert (gives is None) != (raises is None), f"{numbers}: wanted what they give, or what they raise"
        for number in numbers:
            assert number not in BEHAVIOURS, f"{number} is shown twice"
            BEHAVIOURS[number] = Behaviour(number, function, gives, raises, here)
        return function

    return register


# Python's error for sending a function that is defined within another one.
CANNOT = "Can't get" if sys.version_info >= (3, 13) else "Can't pickle"

# torch 2.6 words some errors differently.
OLD = torch.__version__.startswith("2.6.")


def fits(wanted: str, message: str) -> bool:
    """Return whether ``wanted`` is the first line of ``message``, or the whole message if ``wanted`` has more lines."""
    lines = message.strip().splitlines()
    text = "\n".join(lines[: wanted.count("\n") + 1])
    return re.fullmatch(r"[^\n]+".join(map(re.escape, wanted.split("…"))), text) is not None


def outcome_of(function: Callable[[], object]) -> str:
    """Return type and first line of the error that ``function`` raises, or its value."""
    try:
        return f"returned {function()}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"


def outcomes_of(*functions: Callable[[], object]) -> list[str]:
    return [outcome_of(function) for function in functions]


def execute(text: str, **names: object) -> dict[str, Any]:
    """Run a listing as a module of its own that knows ``names``, and return what it defines."""
    scope = {"__name__": "listing", **names}
    exec(compile(textwrap.dedent(text), "listing", "exec"), scope)
    return scope


def script(text: str) -> subprocess.CompletedProcess[str]:
    """Run a listing as a program, in an interpreter of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "listing.py")
        path.write_text(textwrap.dedent(text))
        command = [sys.executable, "-W", "ignore", str(path)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
