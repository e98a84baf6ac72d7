"""Run ``conform``: write the suite to disk, run an implementation on it, and judge its results.

Exit status of ``run`` and ``judge``: 0 if every verdict is as expected; 1 if one is not, an unexpected pass included; 2
for bad input; 3 if the suite is broken, or this machine cannot judge it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from reference.cli.options import BadInput, Parser, check_writable, seconds, whole_number
from reference.conform.expected_verdicts import Expectation, as_toml, compare_expectations, read_expectations, updated
from reference.conform.judge import Judged, judge_suite
from reference.conform.report import FORMATS, Report, as_html
from reference.conform.run_suite import Settings, run_suite
from reference.conform.suite import CATALOGUE, Suite, SuiteBroken, chosen, matching, open_suite
from reference.system.files import whole
from reference.system.text import one_line

BROKEN = 3
_USAGE = """\
usage: python -m reference conform export DIR [--suite core|full] [--cases GLOB]
       python -m reference conform run DIR --out OUT [--cases GLOB] [--repeat N] [--timeout S] [-j N] -- CMD ...
       python -m reference conform judge DIR OUT... [--cases GLOB] [--expect FILE] [--update] [--format FORMAT]

  export  write the suite: per case a description and inputs, no expected values
  run     run `CMD CASE_DIR OUT_DIR` once per case, and judge what it writes: OUT_DIR/trace.safetensors
  judge   judge the results of an earlier run; of several (OUT OUT ...) with --format html, side by side

Without --expect FILE every case is expected to pass. Exit status 0: all as expected; 1: something unexpected; 2: bad
input, or an output that cannot be written; 3: the suite is broken or cannot be judged here."""


def conform(arguments: Sequence[str]) -> int:
    """Run one of the commands below ``conform``."""
    commands: dict[str, Callable[[Sequence[str]], int]] = {
        "export": _export,
        "run": _run,
        "judge": _judge,
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


def _export(arguments: Sequence[str]) -> int:
    parser = Parser(prog="python -m reference conform export", description="Write the suite of cases to a folder.")
    parser.add_argument("folder", metavar="DIR", help="a new folder")
    parser.add_argument("--suite", choices=("core", "full"), default="core", help="core takes seconds (default)")
    _add_cases(parser)
    options = parser.parse_args(arguments)
    entries = chosen(options.suite, *options.cases)
    from reference.conform.export import export  # with torch: the judge of exact cases does without

    export(Path(options.folder), entries)
    print(f"{len(entries)} cases in {options.folder}")
    return 0


def _run(arguments: Sequence[str]) -> int:
    parser = Parser(
        prog="python -m reference conform run",
        usage="%(prog)s DIR --out OUT [options] -- CMD ...",
        description="Run an implementation on a suite.",
    )
    parser.add_argument("folder", metavar="DIR", help="the suite")
    parser.add_argument("-o", "--out", required=True, metavar="OUT", help="a new folder for the results")
    _add_cases(parser)
    parser.add_argument("--repeat", type=whole_number, default=1, metavar="N", help="runs of each case (default: 1)")
    parser.add_argument("--timeout", type=seconds, default=300.0, metavar="S", help="seconds per run (default: 300)")
    parser.add_argument(
        "-j", "--jobs", type=whole_number, default=1, metavar="N", help="cases that run at once (default: 1)"
    )
    _add_options_of_judging(parser)
    before, command = _split(arguments)
    if not command and not {"-h", "--help"} & set(before):
        raise BadInput("wanted -- and a command, such as: -- python my_program.py")
    options = parser.parse_args(before)
    expected = _expectations(options)
    suite = _open(options.folder)
    cases = [suite.cases[name] for name in matching(suite.cases, options.cases)]
    settings = Settings(tuple(command), options.repeat, options.timeout, options.jobs)
    run_suite(suite, cases, Path(options.out), settings, _tell)
    return _report(suite, judge_suite(suite, Path(options.out)), expected, options)


def _split(arguments: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Split at the first ``--``."""
    words = [*arguments, "--"]
    place = words.index("--")
    return words[:place], words[place + 1 : -1]


def _tell(case: str) -> None:
    if sys.stderr.isatty():
        print(case, file=sys.stderr)


def _judge(arguments: Sequence[str]) -> int:
    parser = Parser(prog="python -m reference conform judge", description="Judge the results of `conform run`.")
    parser.add_argument("folder", metavar="DIR", help="the suite")
    parser.add_argument("out", nargs="+", metavar="OUT", help="the folder of the results; several with --format html")
    _add_cases(parser)
    _add_options_of_judging(parser)
    options = parser.parse_args(arguments)
    expected = _expectations(options)
    suite = _open(options.folder)
    if len(options.out) > 1:
        return _side_by_side(suite, options)
    return _report(suite, judge_suite(suite, Path(options.out[0]), options.cases), expected, options)


def _side_by_side(suite: Suite, options: Any) -> int:
    """Print a page of several implementations, and return the exit status."""
    if options.format != "html" or options.expect is not None or len({*options.out}) != len(options.out):
        raise BadInput("several results make one page: wanted --format html, each folder once, and no --expect")
    reports = {out: _compared(suite, judge_suite(suite, Path(out), options.cases), []) for out in options.out}
    print(as_html(reports), end="")
    return 0 if all(report.compared.holds for report in reports.values()) else 1


def _add_cases(parser: Parser) -> None:
    parser.add_argument(
        "--cases", action="append", metavar="GLOB", default=[], help="only cases whose id matches; several times: any"
    )


def _add_options_of_judging(parser: Parser) -> None:
    parser.add_argument("--expect", metavar="FILE", help="expected verdicts (TOML); all others are expected to pass")
    parser.add_argument("--update", action="store_true", help="write --expect's file anew from these verdicts")
    parser.add_argument("--format", choices=FORMATS, default="text", help="of the judgements (default: text)")


def _expectations(options: Any) -> list[Expectation]:
    """Read the file of expectations; refuse, before anything runs, options that do not fit together."""
    if options.expect is None:
        if options.update:
            raise BadInput("--update wants --expect FILE, which it writes")
        return []
    is_new = options.update and not Path(options.expect).exists()
    expected = [] if is_new else read_expectations(Path(options.expect))
    if options.update:
        check_writable(options.expect)
    return expected


def _open(folder: str) -> Suite:
    if not Path(folder, "suite.json").exists():
        raise BadInput(f"{folder}: no suite.json, wanted a folder that `conform export` has written")
    return open_suite(Path(folder))


_KNOWN = [entry.id for entry in CATALOGUE]


def _compared(suite: Suite, judged: Sequence[Judged], expected: list[Expectation]) -> Report:
    requirements = {name: case.described["requirements"] for name, case in suite.cases.items()}
    return Report(suite.version, judged, compare_expectations(judged, expected, _KNOWN), requirements)


def _report(suite: Suite, judged: Sequence[Judged], expected: list[Expectation], options: Any) -> int:
    """Write the judgements in the chosen format, and return the exit status."""
    if options.update:
        expected = updated(judged, expected, _KNOWN)
    report = _compared(suite, judged, expected)
    compared = report.compared
    print(FORMATS[options.format](report), end="")
    for line in (*compared.unexpected, *(f"{options.expect}: {line}" for line in compared.stale)):
        print(one_line(f"unexpected: {line}"), file=sys.stderr)
    if options.update:  # after the verdicts, which a full disk does not hide
        with whole(options.expect) as scratch:
            scratch.write_text(as_toml(expected), encoding="utf-8")
    return 0 if compared.holds else 1
