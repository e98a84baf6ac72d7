"""Run ``verify``: compare every tutorial with its twin and print the table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from reference import TUTORIALS
from reference.cli.options import BadInput, Parser, known
from reference.cli.progress_bar import watch
from reference.system.text import one_line
from reference.trace.case import Case
from reference.verify.verify import CASES_LONG, Row, cases, changes, exit_status, long_cases, played, titled


def run_verify(arguments: Sequence[str]) -> int:
    parser = Parser(
        prog="python -m reference verify",
        description="Run tutorials and compare every tensor with the single-process twin.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="a tutorial to verify (default: all)")
    parser.add_argument("--long", action="store_true", help="add runs that take minutes and must reach a goal")
    parser.add_argument("--small", action="store_true", help="leave out the runs that train ResNet50, half of the time")
    options = parser.parse_args(arguments)
    names = [known(name) for name in options.names] or list(TUTORIALS)
    long = long_cases(names) if options.long else []
    if options.long and not long:
        raise BadInput(f"--long adds no run of {', '.join(names)}, wanted {', '.join(CASES_LONG)} among the names")
    wanted: list[tuple[Case, dict[str, bool]]] = [(case, {}) for case in cases(names, small=options.small)]
    wanted += [(case, {"goal": True}) for case in long]
    rows: list[Row] = []
    not_judged: list[Callable[[], Row]] = []

    def judge() -> None:
        while not_judged:
            rows.append(not_judged.pop(0)())

    try:
        for case, judged_by in wanted:
            with watch(titled(case)) as progress:
                # A world leaves a part of the cores to the twin of the one before.
                not_judged.append(played(case, progress, judge, **judged_by))
        judge()
    finally:
        if rows:  # those before an interrupt, too
            _show(rows)
    return exit_status(row.verdict for row in rows)


def _show(rows: Sequence[Row]) -> None:
    """Print the table, and what explains its differences."""
    table = Table(title="verify: RPC against the single-process twin")
    for column in ("tutorial", "case", "roles", "steps", "seconds", "worst difference", "verdict"):
        table.add_column(
            column, justify="right" if column in ("roles", "steps", "seconds") else "left", overflow="fold"
        )
    explanations: list[str] = []
    for row in rows:
        case = row.case
        numbers = (str(row.roles), str(case.steps), f"{row.seconds:.1f}")
        texts = (case.tutorial(), changes(case) or "defaults", *numbers, row.difference, row.verdict)
        if row.explanation:
            explanations += [titled(case), *(f"  {line}" for line in row.explanation)]
        table.add_row(*map(Text, texts))  # as `Text`, because the brackets of an error are not markup
    Console(width=None if sys.stdout.isatty() else 140).print(table)
    for line in explanations:
        print(one_line(line))
