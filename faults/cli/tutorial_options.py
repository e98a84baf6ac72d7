"""Read a tutorial's name and the options of its case."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from faults.cli.commands import FOR_SCRIPTS
from faults.cli.options import SCRIPT, Option, parser_of
from faults.run.runs import Subject, of_tutorial
from reference.cli.options import BadInput, add_case_options, known
from reference.verify.verify import quick

# Seconds that a tutorial's roles wait for each other. Short, because most runs here lose a role or a message.
TIMEOUT = 3.0


def tutorial_of(command: str, about: str, arguments: Sequence[str], *more: Option) -> tuple[Subject, Any]:
    """Read the tutorial's name, the options of its case, and the command's own options (``more``)."""
    name = _name_of_tutorial(command, arguments)
    parser = parser_of(f"{command} {name}", about, *more)
    own = {option.lstrip("-").replace("-", "_") for option, _ in more}
    add_case_options(parser, quick(name, timeout=TIMEOUT))
    options = vars(parser.parse_args(arguments[1:]))
    chosen = argparse.Namespace(**{key: options.pop(key) for key in own})
    given = {key: value for key, value in options.items() if value is not None}
    return of_tutorial(quick(name, **{"timeout": TIMEOUT, **given})), chosen


def _name_of_tutorial(command: str, arguments: Sequence[str]) -> str:
    """Return the tutorial that stands first. Raises BadInput: none does; SystemExit: ``--help`` was printed."""
    if arguments and arguments[0] in ("-h", "--help"):
        print(f"usage: python -m faults {command} NAME [options]; `{command} NAME --help` lists a tutorial's options")
        if command in FOR_SCRIPTS:
            usage = f"{command} [options] {SCRIPT} my.py"
            print(f"       python -m faults {usage}; `{command} --help {SCRIPT}` lists those options")
        raise SystemExit(0)
    if not arguments or arguments[0].startswith("-"):
        raise BadInput(f"{command} what? wanted a tutorial's name first, got {' '.join(arguments) or 'nothing'}")
    if command in FOR_SCRIPTS and arguments[0].endswith(".py"):
        raise BadInput(
            f"{arguments[0]} is no tutorial: wanted `{command} ... {SCRIPT} {arguments[0]}` for a program of your own"
        )
    return known(arguments[0])
