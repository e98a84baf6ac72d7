"""The commands of ``python -m faults`` and where they are, so that only the one asked for is imported."""

from __future__ import annotations

from collections.abc import Sequence

from faults.cli.options import script_of

# The module of each command. Those for a user's own program, `check` and `prepare` import no torch.
FOR_TUTORIALS = {
    "list": "faults.cli.list_tutorial_command",
    "run": "faults.cli.run_tutorial_command",
    "sweep": "faults.cli.sweep_tutorial_command",
    "shrink": "faults.cli.shrink_tutorial_command",
}
FOR_SCRIPTS = {
    "list": "faults.cli.list_script_command",
    "run": "faults.cli.run_script_command",
    "sweep": "faults.cli.sweep_script_command",
    "shrink": "faults.cli.shrink_script_command",
}
COMMANDS = {
    **FOR_TUTORIALS,
    "prepare": "faults.cli.prepare_command",
    "check": "faults.cli.check_command",
}


def module_of(arguments: Sequence[str]) -> str | None:
    """Return the module of a command line's command; None if there is no command of that name."""
    if not arguments or arguments[0] not in COMMANDS:
        return None
    table = FOR_SCRIPTS if arguments[0] in FOR_SCRIPTS and script_of(arguments) is not None else COMMANDS
    return table[arguments[0]]
