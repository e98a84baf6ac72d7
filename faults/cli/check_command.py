"""Run ``check`` of ``python -m faults``: judge a stored run again."""

from __future__ import annotations

from collections.abc import Sequence

from faults.cli.options import folder, parser_of
from faults.cli.run_report import report
from faults.ledger import record
from faults.verdict.checks import judge


def main(arguments: Sequence[str]) -> int:
    """Judge a stored run again, by its folder alone."""
    parser = parser_of("check", "Judge a stored run again, by its folder alone.")
    parser.add_argument("dir", type=folder, metavar="DIR", help="the run's folder")
    found = record.read(parser.parse_args(arguments).dir)
    try:
        judgement = judge(found)
    except Exception as error:  # a file that no run wrote may break a check in any way
        why = f"it holds what no run writes ({type(error).__name__}: {error})"
        raise record.RecordError(f"{found.name} cannot be judged: {why}") from error
    return report(found, judgement)
