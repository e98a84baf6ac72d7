"""Read the options that say how the results of a user's own program are checked."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from typing import Any

from faults.cli.options import Option
from faults.script.results import Results
from reference.cli.options import BadInput


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
WRITES: Option = (
    "--writes",
    {
        "type": file,
        "action": "append",
        "default": [],
        "metavar": "PATH",
        "help": "a file that the program writes and --check reads; it is moved into the run's folder after each run",
    },
)
OF_RESULTS: tuple[Option, ...] = (
    CHECK,
    WRITES,
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
    _written_for_check(options)
    return Results(
        command=options.check or "",
        output=options.same_output,
        ignored=options.ignore,
        files=options.same_file,
        written=options.writes,
    )


def checked_by(options: Any) -> Results:
    """Read ``--check`` and ``--writes``. Raises BadInput: the second one stands alone."""
    _written_for_check(options)
    return Results(command=options.check or "", written=options.writes)


def _written_for_check(options: Any) -> None:
    if options.writes and options.check is None:
        raise BadInput("--writes has no effect without --check: wanted both")
