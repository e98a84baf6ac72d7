"""Read the options for a user's own program, and where its command begins."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from faults.cli.options import DIR, EXPECT, HEALTHY, LEAKS, ORDER, PLAN, Option, seconds
from faults.plan.errors import shown
from reference.cli.options import BadInput

DEADLINE_OF_COMMAND: Option = (
    "--deadline",
    {
        "type": seconds,
        "metavar": "X",
        "help": "seconds until the command is killed (default: 300, or more where the bound is later)",
    },
)
DEADLINE_OF_SWEEP: Option = (
    "--deadline",
    {
        "type": seconds,
        "metavar": "X",
        "help": "seconds until a run's command is killed (default: ten times those of the healthy run, at least 60, or "
        "more where the bound is later)",
    },
)
BOUND: Option = (
    "--bound",
    {
        "type": seconds,
        "metavar": "X",
        "help": "seconds from the last fault to the end of a program that fails (default: computed from its own "
        "timeouts)",
    },
)
OF_SCRIPTS: tuple[Option, ...] = (PLAN, HEALTHY, DIR, DEADLINE_OF_COMMAND, BOUND, LEAKS, ORDER, EXPECT)

SCRIPT = "--script"


def script_of(arguments: Sequence[str]) -> tuple[list[str], list[str]] | None:
    """Split the words at ``--script``: those before it, and those after it. None if there is no ``--script``."""
    for place, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if name == SCRIPT:
            return list(arguments[:place]), [*([value] if equals else []), *arguments[place + 1 :]]
    return None


def only_theirs(command: list[str], own: Sequence[Option] = OF_SCRIPTS) -> list[str]:
    """Return the user's command, without a leading ``--``. ``own``: the options of this program's command.

    An option of this program inside the command would have no effect, so it is refused, unless ``--`` precedes it.

    Raises:
        BadInput: there is no command, or it contains an option of this program.
    """
    theirs = command[1:] if command[:1] == ["--"] else command
    if not theirs or not theirs[0]:
        raise BadInput(f"{SCRIPT} what? wanted a Python file or a command, such as torchrun, and its arguments")
    if theirs[0] == "-m":
        raise BadInput(f"{SCRIPT} -m is no command: wanted `{SCRIPT} python -m ...`")
    ours = {SCRIPT, *(name for name, _ in own)}
    for word in command if theirs is command else ():
        if word.partition("=")[0] in ours:
            raise BadInput(
                f"{shown(word)} stands after {SCRIPT}, where all words belong to the program: "
                f"wanted it before {SCRIPT}, or `{SCRIPT} -- ...` to pass it on to the program"
            )
    return theirs


def startable(command: list[str]) -> list[str]:
    """Put the interpreter before a Python file. Raises BadInput: there is no such file, or it is a folder."""
    name = command[0]
    if Path(name).is_dir() and ("/" in name or shutil.which(name) is None):
        raise BadInput(f"--script {name} is a folder: wanted a Python file or a command")
    if not name.endswith(".py"):
        return command
    if not Path(name).is_file():
        raise BadInput(f"--script {name}: no such file")
    return [sys.executable, *command]
