"""The commands of ``python -m faults`` and where they are, so that only the one asked for is imported."""

from __future__ import annotations

from collections.abc import Sequence

from faults.cli.options import script_of

COMMANDS = {name: f"faults.cli.{name}_command" for name in ("list", "run", "sweep", "shrink", "prepare", "check")}
# The commands that run something: a tutorial, or after ``--script`` a program of the user's own.
WITH_TARGETS = ("list", "run", "sweep", "shrink")


def modules_of(arguments: Sequence[str]) -> list[str]:
    """Return the modules that a command line needs, the command's own first; none if there is no such command.

    Only those for a tutorial import torch.
    """
    if not arguments or arguments[0] not in COMMANDS:
        return []
    is_tutorial = arguments[0] in WITH_TARGETS and script_of(arguments) is None
    return [COMMANDS[arguments[0]], *(["faults.cli.tutorial_target"] if is_tutorial else [])]
