"""Read the options of ``python -m faults``: names of tutorials, times, plans, and where a user's own command begins."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from faults.plan.errors import shown
from faults.plan.plan import Plan, PlanError
from faults.run.subject import Subject, of_tutorial
from faults.run.sweep import INJECTIONS, ORDER
from reference.cli.options import BadInput, Parser, add_case_options, known
from reference.system.plain_file import LONGEST, content_of
from reference.verify.small_cases import quick

# Seconds that a tutorial's roles wait for each other. Short, because most runs here lose a role or a message.
TIMEOUT = 3.0


# The longest time that an option accepts (seconds).
_LONGEST = 1e6

Option = tuple[str, dict[str, Any]]


def seconds(text: str) -> float:
    """Convert an option that is a time (argparse type)."""
    with suppress(ValueError):
        if 0 < float(text) <= _LONGEST:  # false for NaN
            return float(text)
    raise argparse.ArgumentTypeError(f"wanted seconds, above 0 and at most {_LONGEST:.0f}, got {text!r}")


def kinds(text: str) -> list[str]:
    """Convert ``--kinds``: names from the table of verdicts, or the first words of such names (argparse type)."""
    known_kinds = dict.fromkeys(each for name in (*INJECTIONS, ORDER) for each in (name, name.split()[0]))
    chosen = [kind.strip() for kind in text.split(",")]
    for kind in chosen:
        if kind not in known_kinds:
            raise argparse.ArgumentTypeError(f"unknown kind {kind!r}, wanted some of {', '.join(known_kinds)}")
    return chosen


def folder(text: str) -> str:
    """Convert an option that is a folder (argparse type). An empty name is refused: it would be the current folder."""
    if not text:
        raise argparse.ArgumentTypeError("wanted a folder, got ''")
    return text


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
DEADLINE: Option = (
    "--deadline",
    {
        "type": seconds,
        "metavar": "X",
        "help": "seconds until a role that still runs is killed (default: computed from --timeout)",
    },
)

# For a user's own program.
DEADLINE_OF_COMMAND: Option = (
    "--deadline",
    {
        "type": seconds,
        "metavar": "X",
        "help": "seconds until the command is killed (default: 300, or more where the bound is later)",
    },
)
_BOUND: Option = (
    "--bound",
    {
        "type": seconds,
        "metavar": "X",
        "help": "seconds from the first fault to the end of a program that fails (default: computed from its own "
        "timeouts)",
    },
)
OF_SCRIPTS: tuple[Option, ...] = (PLAN, HEALTHY, DIR, DEADLINE_OF_COMMAND, _BOUND, LEAKS)

SCRIPT = "--script"
# The commands that take a user's own program.
WITH_SCRIPTS = ("list", "run")


def parser_of(command: str, about: str, *options: Option) -> Parser:
    """Make the parser of one command."""
    parser = Parser(prog=f"python -m faults {command}", description=about)
    for name, how in options:
        parser.add_argument(name, **how)
    return parser


def tutorial_of(command: str, about: str, arguments: Sequence[str], *more: Option) -> tuple[Subject, Any]:
    """Read the tutorial's name, the options of its case, and the command's own options (``more``)."""
    name = _name_of_tutorial(command, arguments)
    parser = parser_of(f"{command} {name}", about, *more)
    own = {option.lstrip("-") for option, _ in more}
    add_case_options(parser, quick(name, timeout=TIMEOUT))
    options = vars(parser.parse_args(arguments[1:]))
    chosen = argparse.Namespace(**{key: options.pop(key) for key in own})
    given = {key: value for key, value in options.items() if value is not None}
    return of_tutorial(quick(name, **{"timeout": TIMEOUT, **given})), chosen


def _name_of_tutorial(command: str, arguments: Sequence[str]) -> str:
    """Return the tutorial that stands first. Raises BadInput: none does; SystemExit: ``--help`` was printed."""
    if arguments and arguments[0] in ("-h", "--help"):
        print(f"usage: python -m faults {command} NAME [options]; `{command} NAME --help` lists a tutorial's options")
        if command in WITH_SCRIPTS:
            usage = f"{command} [options] {SCRIPT} my.py"
            print(f"       python -m faults {usage}; `{command} --help {SCRIPT}` lists those options")
        raise SystemExit(0)
    if not arguments or arguments[0].startswith("-"):
        raise BadInput(f"{command} what? wanted a tutorial's name first, got {' '.join(arguments) or 'nothing'}")
    if command in WITH_SCRIPTS and arguments[0].endswith(".py"):
        raise BadInput(
            f"{arguments[0]} is no tutorial: wanted `{command} ... {SCRIPT} {arguments[0]}` for a program of your own"
        )
    return known(arguments[0])


def script_of(arguments: Sequence[str]) -> tuple[list[str], list[str]] | None:
    """Split the words at ``--script``: those before it, and those after it. None if there is no ``--script``."""
    for place, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if name == SCRIPT:
            return list(arguments[:place]), [*([value] if equals else []), *arguments[place + 1 :]]
    return None


def only_theirs(command: list[str]) -> list[str]:
    """Return the user's command, without a leading ``--``.

    An option of this program inside the command would have no effect, so it is refused, unless ``--`` precedes it.

    Raises:
        BadInput: there is no command, or it contains an option of this program.
    """
    theirs = command[1:] if command[:1] == ["--"] else command
    if not theirs or not theirs[0]:
        raise BadInput(f"{SCRIPT} what? wanted a Python file or a command, such as torchrun, and its arguments")
    if theirs[0] == "-m":
        raise BadInput(f"{SCRIPT} -m is no command: wanted `{SCRIPT} python -m ...`")
    ours = {SCRIPT, *(name for name, _ in OF_SCRIPTS)}
    for word in command if theirs is command else ():
        if word.partition("=")[0] in ours:
            raise BadInput(
                f"{shown(word)} stands after {SCRIPT}, where all words belong to the program: "
                f"wanted it before {SCRIPT}, or `{SCRIPT} -- ...` to pass it on to the program"
            )
    return theirs


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
    if options.plan is None:
        raise BadInput("no faults are planned: wanted --plan PLAN, or --healthy for a run without any")
    plan = read_plan(options.plan)
    if not plan.faults:
        raise PlanError(f"--plan {shown(options.plan)} has no faults: wanted at least one, or --healthy instead")
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
