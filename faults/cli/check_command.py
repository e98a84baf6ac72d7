"""Run ``check`` of ``python -m faults``: judge a stored run again."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from faults.cli.options import EXPECT, Option, folder, parser_of
from faults.cli.reports import REPORTS, check_reports, report, write_run
from faults.judge.rules import judge
from faults.ledger import record
from faults.script.script import record_end


def status(text: str) -> int:
    """Convert ``--ended``: an exit status (argparse type)."""
    if not text.isdecimal() or int(text) > 255:
        raise argparse.ArgumentTypeError(f"wanted an exit status from 0 to 255, got {text!r}")
    return int(text)


_ENDED: Option = (
    "--ended",
    {
        "type": status,
        "metavar": "STATUS",
        "help": "record in the folder that all programs, started with FAULTS_RUN, have ended, and their command with "
        "this exit status",
    },
)


def main(arguments: Sequence[str]) -> int:
    """Judge a stored run again, by its folder alone."""
    parser = parser_of("check", "Judge a stored run again, by its folder alone.", _ENDED, EXPECT, *REPORTS)
    parser.add_argument("dir", type=folder, metavar="DIR", help="the run's folder")
    options = parser.parse_args(arguments)
    check_reports(options)
    if options.ended is not None:
        record_end(options.dir, options.ended)
    found = record.read(options.dir)
    try:
        judgement = judge(found, expected=options.expect_error)
    except Exception as error:  # a file that no run wrote may break a check in any way
        why = f"it holds what no run writes ({type(error).__name__}: {error})"
        raise record.RecordError(f"{found.name} cannot be judged: {why}") from error
    write_run(options, found, judgement, options.dir)
    return report(found, judgement)
