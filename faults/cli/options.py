"""The options of ``python -m faults``: names of tutorials, times, plans, and where a user's own command begins."""

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
from reference.verify.small_cases import quick

# Seconds that a tutorial's roles wait for each other here, where most runs lose somebody.
TIMEOUT = 3.0

# The longest plan that is read from a file (bytes).
LONGEST = 2**26

# The longest time that may be asked for (seconds).
_LONGEST = 1e6

Option = tuple[str, dict[str, Any]]


def seconds(text: str) -> float:
    """The type of options that are times."""
    with suppress(ValueError):
        if 0 < float(text) <= _LONGEST:  # nor NaN
            return float(text)
    raise argparse.ArgumentTypeError(f"wanted seconds, above 0 and at most {_LONGEST:.0f}, got {text!r}")


def kinds(text: str) -> list[str]:
    """The type of ``--kinds``: names of the table, or their first words."""
    known_kinds = dict.fromkeys(each for hurt in (*INJECTIONS, ORDER) for each in (hurt, hurt.split()[0]))
    chosen = [kind.strip() for kind in text.split(",")]
    for kind in chosen:
        if kind not in known_kinds:
            raise argparse.ArgumentTypeError(f"unknown kind {kind!r}, wanted some of {', '.join(known_kinds)}")
    return chosen


def folder(text: str) -> str:
    """The type of folders: an empty one would be the current directory."""
    if not text:
        raise argparse.ArgumentTypeError("wanted a folder, got ''")
    return text


PLAN: Option = ("--plan", {"metavar": "PLAN", "help": "the plan as text, or a file: one fault at least"})
HEALTHY: Option = ("--healthy", {"action": "store_true", "help": "no faults; instead of --plan"})
DIR: Option = (
    "--dir",
    {"type": folder, "metavar": "DIR", "help": "where runs are stored (default: nowhere, unless one fails)"},
)
DEADLINE: Option = (
    "--deadline",
    {"type": seconds, "metavar": "X", "help": "seconds until an overdue role is ended (default: by --timeout)"},
)

# Of a program of the user's own.
_ENDED: Option = (
    "--deadline",
    {
        "type": seconds,
        "metavar": "X",
        "help": "seconds until the command is ended (default: 300, or beyond the bound)",
    },
)
_BOUND: Option = (
    "--bound",
    {
        "type": seconds,
        "metavar": "X",
        "help": "seconds within which it must end after the first fault, if it fails (default: by its own timeouts)",
    },
)
OF_SCRIPTS: tuple[Option, ...] = (PLAN, HEALTHY, DIR, _ENDED, _BOUND)

SCRIPT = "--script"


def parser_of(command: str, about: str, *options: Option) -> Parser:
    """The parser of one command."""
    parser = Parser(prog=f"python -m faults {command}", description=about)
    for name, how in options:
        parser.add_argument(name, **how)
    return parser


def tutorial_of(command: str, about: str, arguments: Sequence[str], *more: Option) -> tuple[Subject, Any]:
    """The tutorial that is named first, with its case's options, and the command's own options."""
    if not arguments or arguments[0].startswith("-"):
        if arguments and arguments[0] in ("-h", "--help"):
            print(
                f"usage: python -m faults {command} NAME [options]; `{command} NAME --help` lists a tutorial's options"
            )
            if command == "run":
                print(
                    f"       python -m faults run [options] {SCRIPT} my.py; `run --help {SCRIPT}` lists those options"
                )
            raise SystemExit(0)
        raise BadInput(f"{command} what? wanted a tutorial's name first, got {' '.join(arguments) or 'nothing'}")
    if command == "run" and arguments[0].endswith(".py"):
        raise BadInput(
            f"{arguments[0]} is no tutorial: wanted `run ... {SCRIPT} {arguments[0]}` for a program of your own"
        )
    name = known(arguments[0])
    about = f"{about} Sizes are small unless given; --timeout is {TIMEOUT:g} then."
    parser = parser_of(f"{command} {name}", about, *more)
    own = {option.lstrip("-") for option, _ in more}
    add_case_options(parser, name)
    options = vars(parser.parse_args(arguments[1:]))
    chosen = argparse.Namespace(**{key: options.pop(key) for key in own})
    given = {key: value for key, value in options.items() if value is not None}
    return of_tutorial(quick(name, **{"timeout": TIMEOUT, **given})), chosen


def script_of(arguments: Sequence[str]) -> tuple[list[str], list[str]] | None:
    """The words before ``--script``, and those after it. None where there is no ``--script``."""
    for place, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if name == SCRIPT:
            return list(arguments[:place]), [*([value] if equals else []), *arguments[place + 1 :]]
    return None


def only_theirs(command: list[str]) -> list[str]:
    """The user's command, in which an option of ours would say nothing. What follows ``--`` is theirs, whatever it is.

    Raises:
        BadInput: there is no command, or an option of ours stands in it.
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
                f"{shown(word)} stands after {SCRIPT}, where all words are the program's: "
                f"wanted it before {SCRIPT}, or `{SCRIPT} -- ...` to pass it on to the program"
            )
    return theirs


def plan_of(options: Any) -> Plan:
    """What ``--plan`` and ``--healthy`` ask for: a run without faults proves nothing, unless that was wanted.

    Raises:
        BadInput: neither is given, or both.
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
        raise PlanError(f"--plan {shown(options.plan)} has no faults: wanted one at least, or --healthy instead")
    return plan


def read_plan(text: str) -> Plan:
    """A plan from the text itself, or from a file of that name. Raises PlanError."""
    is_text = "=" in text or text.lstrip().startswith("{") or not text.strip()
    if is_text and not (text.strip() and _exists(text)):
        return Plan.parse(text)
    try:
        return Plan.parse(_content(Path(text)).decode())
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise PlanError(f"{shown(text)} is neither a plan nor a file that holds one: {why}") from error


def _content(file: Path) -> bytes:
    """What it holds; it may be a pipe, but none that never ends. Raises PlanError: that is too much."""
    with file.open("rb") as opened:
        content = opened.read(LONGEST + 1)
    if len(content) > LONGEST:
        raise PlanError(f"{shown(str(file))} has more than {LONGEST} bytes, wanted a plan")
    return content


def _exists(path: str) -> bool:
    with suppress(OSError):  # a plan may be longer than a name
        return Path(path).exists()
    return False
