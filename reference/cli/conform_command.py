"""Run ``conform``: write the suite to disk, run an implementation on it, and judge its results.

Exit status of ``run`` and ``judge``: 0 if every case is right; 1 if a case is not; 2 for bad input; 3 if the suite is
broken, or this machine cannot judge it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from reference.cli.options import BadInput, Parser
from reference.conform.catalogue import CATALOGUE, chosen
from reference.conform.judge import RIGHT, Judged, judge_suite
from reference.conform.run_suite import NoResults, Settings, run_suite
from reference.conform.suite import Suite, SuiteBroken, SuiteCase, open_suite
from reference.system.printable import one_line

BROKEN = 3


def conform(arguments: Sequence[str]) -> int:
    """Run one of the commands below ``conform``."""
    commands: dict[str, Callable[[Sequence[str]], int]] = {"export": _export, "run": _run, "judge": _judge}
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
    except NoResults as error:
        raise BadInput(str(error)) from error


_USAGE = """\
usage: python -m reference conform export DIR [--suite core|full] [--cases GLOB]
       python -m reference conform run DIR --out OUT [--cases GLOB] [--repeat N] [--timeout S] [-j N] -- CMD ...
       python -m reference conform judge DIR OUT

  export  write the suite: per case a description and inputs, no expected values
  run     run `CMD CASE_DIR OUT_DIR` once per case, and judge what it writes: OUT_DIR/trace.safetensors
  judge   judge the results of an earlier run

Exit status 0: every case is right; 1: a case is not; 2: bad input; 3: the suite is broken or cannot be judged here."""


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


def _run(arguments: Sequence[str]) -> int:
    parser = Parser(prog="python -m reference conform run", description="Run an implementation on a suite.")
    parser.add_argument("folder", metavar="DIR", help="the suite")
    parser.add_argument("--out", required=True, metavar="OUT", help="a new folder for the results")
    parser.add_argument("--cases", metavar="GLOB", default="*", help="only cases whose id matches")
    parser.add_argument("--repeat", type=_count, default=1, metavar="N", help="runs of each case (default: 1)")
    parser.add_argument("--timeout", type=_seconds, default=300.0, metavar="S", help="seconds per run (default: 300)")
    parser.add_argument("-j", "--jobs", type=_count, default=1, metavar="N", help="cases that run at once (default: 1)")
    parser.add_argument("command", nargs="+", metavar="CMD", help="the command, after --")
    before, dashes, command = _split(arguments)
    if not dashes or not command:
        raise BadInput("wanted -- and a command, such as: -- python my_program.py")
    options = parser.parse_args([*before, "--", *command])
    suite = open_suite(Path(options.folder))
    cases = _matching(suite, options.cases)
    settings = Settings(tuple(options.command), options.repeat, options.timeout, options.jobs)
    try:
        run_suite(suite, cases, Path(options.out), settings, _told)
    except (FileNotFoundError, PermissionError) as error:
        raise BadInput(f"{options.command[0]}: {error.strerror}") from error
    return _report(judge_suite(suite, Path(options.out)))


def _judge(arguments: Sequence[str]) -> int:
    parser = Parser(prog="python -m reference conform judge", description="Judge the results of `conform run`.")
    parser.add_argument("folder", metavar="DIR", help="the suite")
    parser.add_argument("out", metavar="OUT", help="the folder of the results")
    options = parser.parse_args(arguments)
    return _report(judge_suite(open_suite(Path(options.folder)), Path(options.out)))


def _split(arguments: Sequence[str]) -> tuple[Sequence[str], str, Sequence[str]]:
    """Split at the first ``--``."""
    words = list(arguments)
    if "--" not in words:
        return words, "", []
    place = words.index("--")
    return words[:place], "--", words[place + 1 :]


def _matching(suite: Suite, pattern: str) -> list[SuiteCase]:
    cases = suite.chosen(pattern)
    if not cases:
        raise BadInput(f"no case of the suite matches {pattern!r}, wanted for instance {next(iter(suite.cases))!r}")
    return cases


def _told(case: str) -> None:
    if sys.stderr.isatty():
        print(case, file=sys.stderr)


def _report(judged: Sequence[Judged]) -> int:
    width = max(len(each.id) for each in judged)
    for each in judged:
        print(one_line(f"{each.id:<{width}}  {each.verdict:<12}  {each.text}"))
        for line in each.details:
            print(one_line(f"{'':<{width}}  {line}"))
    counts = Counter(each.verdict for each in judged)
    print(f"{len(judged)} cases: {', '.join(f'{count} {verdict}' for verdict, count in counts.items())}")
    return 0 if all(each.verdict in RIGHT for each in judged) else 1


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 < number < 1e6:
        raise ValueError(text)
    return number
