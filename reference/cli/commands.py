"""The commands of ``python -m reference`` and where they are, so that only the one asked for is imported."""

from __future__ import annotations

from collections.abc import Sequence

# Each command's module and function. `list` and most of `conform` need no torch.
COMMANDS = {
    "list": ("reference.cli.main", "show_list"),
    "run": ("reference.cli.run_command", "run"),
    "verify": ("reference.cli.verify_command", "run_verify"),
    "compare": ("reference.cli.compare_command", "run_compare"),
    "conform": ("reference.cli.conform_command", "conform"),
}


def modules_of(arguments: Sequence[str]) -> list[str]:
    """The modules of a command line: the main one, and that of its command if there is one of that name."""
    module, _ = COMMANDS[arguments[0]] if arguments and arguments[0] in COMMANDS else COMMANDS["list"]
    return ["reference.cli.main", module]
