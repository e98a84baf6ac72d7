"""Run ``conform``: write the suite to disk, run an implementation on it, and judge its results.

Exit status of ``run`` and ``judge``: 0 if every verdict is as expected; 1 if one is not, an unexpected pass included; 2
for bad input; 3 if the suite is broken, or this machine cannot judge it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from reference.cli.conform_judging import judge, run
from reference.cli.options import BadInput, Parser
from reference.conform.catalogue import CATALOGUE, chosen
from reference.conform.expectations import BadExpectations
from reference.conform.judgement_diff import BadReport, read_report, report_changes
from reference.conform.process import NotStarted
from reference.conform.run_results import NoResults
from reference.conform.run_suite import NoFolder
from reference.conform.suite import SuiteBroken
from reference.system.printable import one_line

BROKEN = 3


def conform(arguments: Sequence[str]) -> int:
    """Run one of the commands below ``conform``."""
    commands: dict[str, Callable[[Sequence[str]], int]] = {
        "export": _export,
        "run": run,
        "judge": judge,
        "diff": _diff,
        "selftest": _selftest,
    }
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_USAGE)
        return 0
    if arguments[0] not in commands:
        raise BadInput(f"unknown command {arguments[0]!r} of conform, wanted one of {', '.join(commands)}")
    try:
        return commands[arguments[0]](arguments[1:])
    except SuiteBroken as error:
        print(one_line(f"error: {error}"), file=sys.stderr)
        return BROKEN
    except (NoFolder, NotStarted, NoResults, BadExpectations, BadReport) as error:
        raise BadInput(str(error)) from error


_USAGE = """\
usage: python -m reference conform export DIR [--suite core|full] [--cases GLOB]
       python -m reference conform run DIR --out OUT [--cases GLOB] [--repeat N] [--timeout S] [-j N] -- CMD ...
       python -m reference conform judge DIR OUT [--expect FILE] [--update] [--format text|json|junit|html]
       python -m reference conform diff REPORT REPORT
       python -m reference conform selftest

  export  write the suite: per case a description and inputs, no expected values
  run     run `CMD CASE_DIR OUT_DIR` once per case, and judge what it writes: OUT_DIR/trace.safetensors
  judge   judge the results of an earlier run
  diff    which verdicts differ between two reports that --format json wrote; exit status 1 if any does
  selftest  judge broken implementations, which must get their verdicts and explanations

Without --expect FILE every case is expected to pass. Exit status 0: all as expected; 1: something unexpected; 2: bad
input; 3: the suite is broken or cannot be judged here."""


def _export(arguments: Sequence[str]) -> int:
    parser = Parser(prog="python -m reference conform export", description="Write the suite of cases to a folder.")
    parser.add_argument("folder", metavar="DIR", help="a new folder")
    parser.add_argument("--suite", choices=("core", "full"), default="core", help="core takes seconds (default)")
    parser.add_argument("--cases", metavar="GLOB", default="*", help="only cases whose id matches")
    options = parser.parse_args(arguments)
    entries = chosen(options.suite, options.cases)
    if not entries:
        raise BadInput(f"no case matches {options.cases!r}, wanted for instance {CATALOGUE[0].id!r}")
    from reference.conform.export import export  # with torch, which the judge of exact cases does without

    try:
        export(Path(options.folder), entries)
    except (FileExistsError, NotADirectoryError) as error:
        raise BadInput(f"{options.folder}: {error.strerror}") from error
    print(f"{len(entries)} cases in {options.folder}")
    return 0


def _diff(arguments: Sequence[str]) -> int:
    parser = Parser(prog="python -m reference conform diff", description="Compare two reports of --format json.")
    parser.add_argument("before", metavar="REPORT", help="the first report")
    parser.add_argument("after", metavar="REPORT", help="the second report")
    options = parser.parse_args(arguments)
    before, after = read_report(Path(options.before)), read_report(Path(options.after))
    lines = report_changes(before, after)
    print("\n".join(lines) if lines else f"equal verdicts: {len(before)} cases")
    return 1 if lines else 0


def _selftest(arguments: Sequence[str]) -> int:
    parser = Parser(prog="python -m reference conform selftest", description="Judge broken implementations.")
    parser.parse_args(arguments)
    from reference.conform.selftest.selftest import selftest

    tested = 0
    failed = 0
    for each in selftest():
        tested += 1
        if not each.holds:
            failed += 1
            print(
                one_line(f"{each.name}: got {each.got.verdict}, {each.got.text}; wanted {each.verdict}, {each.told!r}")
            )
            for line in each.got.details:
                print(one_line(f"    {line}"))
    print(f"{tested} implementations judged, {failed} not as expected")
    return BROKEN if failed else 0
