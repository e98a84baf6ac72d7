"""Read the options of ``python -m faults``: times, folders and plans."""

from __future__ import annotations

import argparse
from contextlib import suppress
from pathlib import Path
from typing import Any

from faults.plan.errors import shown
from faults.plan.plan import Plan, PlanError
from reference.cli.options import BadInput, Parser
from reference.system.plain_file import LONGEST, content_of

# The longest time that an option accepts (seconds).
_LONGEST = 1e6

Option = tuple[str, dict[str, Any]]


def seconds(text: str) -> float:
    """Convert an option that is a time (argparse type)."""
    with suppress(ValueError):
        if 0 < float(text) <= _LONGEST:  # false for NaN
            return float(text)
    raise argparse.ArgumentTypeError(f"wanted seconds, above 0 and at most {_LONGEST:.0f}, got {text!r}")


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
ORDER: Option = (
    "--order",
    {"action": "store_true", "help": "record in which order calls execute, so that `replay` keeps this order"},
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
DEADLINE: Option = (
    "--deadline",
    {
        "type": seconds,
        "metavar": "X",
        "help": "seconds until a role that still runs is killed (default: computed from --timeout)",
    },
)


def parser_of(command: str, about: str, *options: Option) -> Parser:
    """Make the parser of one command."""
    parser = Parser(prog=f"python -m faults {command}", description=about)
    for name, how in options:
        parser.add_argument(name, **how)
    return parser


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
