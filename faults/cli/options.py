"""Read the command line of ``python -m faults``: which modules a command needs, and options of several commands."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from faults.plan.places import shown
from faults.plan.plan import Plan, PlanError
from faults.script.results import Results
from reference.cli.options import BadInput, Parser, seconds, whole_number
from reference.system.files import LONGEST, content_of

# Where the commands are, so that only the one asked for is imported.
_NAMES = ("list", "run", "sweep", "merge", "shrink", "prepare", "check", "report")
COMMANDS = {name: f"faults.cli.{name}_command" for name in _NAMES}
# The commands that run something: a tutorial, or after ``--script`` a program of the user's own.
WITH_TARGETS = ("list", "run", "sweep", "shrink")

Option = tuple[str, dict[str, Any]]


def _time(name: str, about: str) -> Option:
    return name, {"type": seconds, "metavar": "X", "help": about}


def folder(text: str) -> str:
    """Convert an option that is a folder (argparse type). An empty name is refused: it would be the current folder."""
    if not text:
        raise argparse.ArgumentTypeError("wanted a folder, got ''")
    return text


def types(text: str) -> tuple[str, ...]:
    """Convert ``--expect-error``: names of exceptions (argparse type)."""
    names = tuple(each.strip() for each in text.split(","))
    if not all(each.isidentifier() for each in names):
        raise argparse.ArgumentTypeError(f"wanted names of exceptions, such as TimeoutError,ShopClosed, got {text!r}")
    return names


PLAN: Option = ("--plan", {"metavar": "PLAN", "help": "the plan, as text or as a file, with at least one fault"})
HEALTHY: Option = ("--healthy", {"action": "store_true", "help": "run without faults; instead of --plan"})
DIR: Option = (
    "--dir",
    {"type": folder, "metavar": "DIR", "help": "folder for the files of runs (default: kept only if a run fails)"},
)
LEAKS: Option = (
    "--leaks",
    {
        "choices": ("count", "trace"),
        "default": "count",
        "help": "trace RRefs and autograd contexts, to name the holders of those that are left (default: count them)",
    },
)
EXPECT: Option = (
    "--expect-error",
    {
        "type": types,
        "metavar": "TYPE,...",
        "default": (),
        "help": "if the program fails, by an error of one of these types, named without their modules; this is then "
        "neither wrong nor needless",
    },
)
RESTARTS: Option = (
    "--restarts",
    {
        "type": whole_number,
        "metavar": "K",
        "default": 0,
        "help": "how often to start the world again when a role is lost, from its last checkpoint (default: 0)",
    },
)
DEADLINE = _time(
    "--deadline",
    "seconds until a role that still runs is killed (default: 80 and four times --timeout, and what the plan lasts; "
    "after a healthy run three times that run's, and the bound)",
)


def parser_of(command: str, about: str, *options: Option) -> Parser:
    """Make the parser of one command."""
    parser = Parser(prog=f"python -m faults {command}", description=about)
    for name, how in options:
        parser.add_argument(*_names_of(name), **how)
    return parser


def _names_of(option: str) -> list[str]:
    return ["-j", option] if option == "--jobs" else [option]


def plan_of(options: Any) -> Plan:
    """Read ``--plan`` or ``--healthy``. A run without faults proves nothing, so it has to be asked for.

    Raises:
        BadInput: neither option is given, or both are.
        PlanError: the plan cannot be read, or has no faults.
    """
    if options.healthy and options.plan is not None:
        raise BadInput("--healthy is a run without faults: wanted it or --plan, got both")
    if options.healthy:
        return Plan()
    missing = "no faults are planned: wanted --plan PLAN, or --healthy for a run without any"
    return with_faults(options.plan, missing, "at least one, or --healthy instead")


def with_faults(text: str | None, missing: str, wanted: str) -> Plan:
    """Read the value of ``--plan``.

    Raises:
        BadInput: there is none; the error is ``missing``.
        PlanError: it cannot be read, or has no faults, which ``wanted`` asks for.
    """
    if text is None:
        raise BadInput(missing)
    plan = read_plan(text)
    if not plan.faults:
        raise PlanError(f"--plan {shown(text)} has no faults: wanted {wanted}")
    return plan


def read_plan(text: str) -> Plan:
    """Read a plan from the text itself, or from a file of that name. Raises PlanError."""
    is_text = "=" in text or text.lstrip().startswith("{") or not text.strip()
    if is_text and not (text.strip() and _exists(text)):
        return Plan.parse(text)
    try:
        return Plan.parse(content_of(Path(text), LONGEST, pipe=True).decode())
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise PlanError(f"{shown(text)} is neither a plan nor a file that holds one: {why}") from error


def _exists(path: str) -> bool:
    with suppress(OSError):  # a plan may be too long for a file name
        return Path(path).exists()
    return False


DEADLINE_OF_COMMAND = _time(
    "--deadline",
    "seconds until the command is killed (default: 300, or more where the bound is later)",
)
DEADLINE_OF_SWEEP = _time(
    "--deadline",
    "seconds until a run's command is killed (default: ten times those of the healthy run, at least 60, or more "
    "where the bound is later)",
)
BOUND = _time(
    "--bound",
    "seconds from the last fault to the end of a program that fails (default: computed from its own timeouts)",
)
BUDGET = _time("--budget", "seconds after which no run begins (default: no limit)")

SCRIPT = "--script"


def script_of(arguments: Sequence[str]) -> tuple[list[str], list[str]] | None:
    """Split the words at ``--script``: those before it, and those after it. None if there is no ``--script``."""
    for place, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if name == SCRIPT:
            return list(arguments[:place]), [*([value] if equals else []), *arguments[place + 1 :]]
    return None


def modules_of(arguments: Sequence[str]) -> list[str]:
    """Return the modules that a command line needs, the command's own first; none if there is no such command.

    Only those for a tutorial import torch.
    """
    if not arguments or arguments[0] not in COMMANDS:
        return []
    is_tutorial = arguments[0] in WITH_TARGETS and script_of(arguments) is None
    return [COMMANDS[arguments[0]], *(["faults.cli.tutorial_target"] if is_tutorial else [])]


def only_theirs(command: list[str], own: Sequence[Option]) -> list[str]:
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
    ours = {SCRIPT, *(name for option, _ in own for name in _names_of(option))}
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
    if Path(name).is_dir() and shutil.which(name) is None:
        raise BadInput(f"--script {name} is a folder: wanted a Python file or a command")
    if not name.endswith(".py"):
        return command
    if not Path(name).is_file():
        raise BadInput(f"--script {name}: no such file")
    return [sys.executable, *command]


def command(text: str) -> str:
    """Convert ``--check``: a shell's command line (argparse type)."""
    if not text.strip():
        raise argparse.ArgumentTypeError(f"wanted a shell's command line, got {text!r}")
    return text


def pattern(text: str) -> re.Pattern[str]:
    """Convert ``--ignore``: a regular expression (argparse type)."""
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"wanted a regular expression, got {text!r}: {error}") from error


def file(text: str) -> Path:
    """Convert an option that is a file which the program writes (argparse type)."""
    if not text or os.path.lexists(text):
        why = "is there already" if text else "is no name"
        raise argparse.ArgumentTypeError(f"{text!r} {why}: wanted a file that each run of the program writes anew")
    return Path(text)


CHECK: Option = (
    "--check",
    {
        "type": command,
        "metavar": "CMD",
        "help": "after each run that returns: a shell's command line that ends with status 0 if the results are right; "
        "the files $FAULTS_OUTPUT and $FAULTS_ERRORS hold what the program printed",
    },
)
OF_RESULTS: tuple[Option, ...] = (
    CHECK,
    (
        "--same-output",
        {"action": "store_true", "help": "the standard output has the healthy run's lines, in any order"},
    ),
    (
        "--ignore",
        {
            "type": pattern,
            "action": "append",
            "default": [],
            "metavar": "REGEX",
            "help": "with --same-output: what this matches does not count",
        },
    ),
    (
        "--same-file",
        {
            "type": file,
            "action": "append",
            "default": [],
            "metavar": "PATH",
            "help": "a file that the program writes has the healthy run's bytes, or the same tensors",
        },
    ),
)


def results_of(options: Any) -> Results:
    """Read what is checked after each run. Raises BadInput: an option has no effect without another one."""
    if options.ignore and not options.same_output:
        raise BadInput("--ignore has no effect without --same-output: wanted both")
    return Results(
        command=options.check or "",
        output=options.same_output,
        ignored=options.ignore,
        files=options.same_file,
    )
