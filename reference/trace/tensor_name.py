"""Check the names of tensors in a trace, and find the step of a loss. Imports no torch."""

from __future__ import annotations

import re

from reference.system.printable import shown

# The longest name in characters.
LONGEST = 1000
_STEP = re.compile(r"[0-9]{4,18}")


def misnamed(name: str) -> str | None:
    """Say why this is no tensor's name; None if it is one.

    A name is printable parts separated by slashes, none of which means a folder.
    """
    if len(name) > LONGEST or not name.isprintable():
        return f"a tensor's name is printable and has at most {LONGEST} characters, got {shown(name)}"
    parts = name.split("/")
    if not {"", ".", ".."}.isdisjoint(parts):
        return f"a tensor's name has no empty part, '.' or '..', got {shown(name)}"
    if parts[1:2] == ["loss"] and not _STEP.fullmatch(parts[0]):
        return f"a loss has a name like '0003/loss/trainer1', got {shown(name)}"
    return None


def step_of(name: str) -> int | None:
    """The step whose loss has this name; None if the name is no loss's."""
    parts = name.split("/", 2)
    return int(parts[0]) if len(parts) == 3 and parts[1] == "loss" and _STEP.fullmatch(parts[0]) else None
