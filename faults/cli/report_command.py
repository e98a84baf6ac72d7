"""Run ``report`` of ``python -m faults``: write a page of a stored run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from faults.cli.check_command import as_runs_write
from faults.cli.options import EXPECT, folder, parser_of
from faults.cli.reports import check_files, write_page
from faults.judge.facts import Facts
from faults.judge.rules import judge
from faults.ledger import record
from faults.ledger.run_files import PAGE
from reference.cli.options import BadInput
from reference.system.files import whole
from reference.system.text import one_line


def main(arguments: Sequence[str]) -> int:
    """Write the page, and print the verdict and the file. Exit status 0, whatever the verdict is."""
    parser = parser_of("report", "Write a page of a stored run, by its folder alone, which a browser shows.", EXPECT)
    parser.add_argument("dir", type=folder, metavar="DIR", help="the run's folder")
    parser.add_argument("-o", "--out", metavar="FILE", help="the page (default: faults-report.html in the folder)")
    parser.add_argument("--perfetto", metavar="FILE", help="also a trace for ui.perfetto.dev (pip install perfetto)")
    options = parser.parse_args(arguments)
    out = options.out or str(Path(options.dir, PAGE))
    found = record.read(options.dir)
    check_files((out, options.perfetto), options.dir)
    write_trace = None if options.perfetto is None else _trace_writer()
    with as_runs_write(found):
        judgement = judge(found, expected=options.expect_error)
        write_page(out, found, judgement, Path(options.dir))
        if write_trace is not None:
            with whole(options.perfetto) as scratch:
                write_trace(Facts(found), scratch)
    print(one_line(f"{judgement.verdict}: {out}"))
    return 0


def _trace_writer() -> Callable[[Facts, Path], None]:
    """Raises BadInput: the package that writes such a trace is not installed."""
    try:
        from faults.report.perfetto import write_trace
    except ImportError as error:
        raise BadInput(f"--perfetto needs the package perfetto (pip install perfetto): {error}") from error
    return write_trace
