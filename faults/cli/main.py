"""``python -m faults``: run a program under a plan, sweep it, judge a stored run.

Exit status 0: pass; 1: fail; 2: bad input, or an output that cannot be written; 3: unknown; 130: interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from faults.cli.options import COMMANDS, WITH_TARGETS, modules_of, script_of
from faults.inject.network.network import NetworkError
from faults.ledger.record import RecordError
from faults.plan.plan import PlanError
from faults.run.sweep import SweepFailed
from faults.script.results import CheckMissing, StaleResult
from reference.cli.options import BadInput
from reference.outcome import WorldError
from reference.system.text import escape_output, one_line
from reference.trace.case import CaseError

_USAGE = """usage: python -m faults COMMAND

  list NAME                        list the RPC calls of a tutorial's healthy run, which faults can hit
  list --script my.py              list those of your own program, with a plan for each call and moment
  run NAME --plan PLAN [options]   run a tutorial once under a plan, and judge the run
  run --plan PLAN --script my.py   run your own program, unchanged, once under a plan, and judge the run
  sweep NAME [options]             run a tutorial once for each call site, kind of fault, and first and last call
  sweep --script my.py             do so with your own program, and check its results
  shrink NAME --plan PLAN          make a plan smaller under which a tutorial fails
  shrink --plan PLAN --script my.py
                                   make a plan smaller under which your own program fails
  prepare DIR --plan PLAN          prepare a folder for programs that are started with FAULTS_RUN=DIR
  check DIR                        judge a stored run again, or print what fired as a plan (--as-plan)
  merge FILE...                    put the reports (--json) of a sweep's parts together (--part)
  report DIR                       write a page of a stored run, which a browser shows

PLAN is a text or a file with at least one fault (docs/plans.md). `--healthy` in its place: a run without faults.
`COMMAND NAME --help` lists the options for a tutorial, `COMMAND --help --script` those for your own program.
Write options in full (but -j and -o), before `--script`, and all but --ignore and --same-file at most once.
Exit status 0: pass; 1: fail; 2: bad input, a failure of the healthy run before a
plan's, or an output that cannot be written; 3: unknown; 130: interrupted."""


_REFUSED = (
    *(BadInput, PlanError, CaseError, WorldError, NetworkError),
    *(RecordError, SweepFailed, StaleResult, CheckMissing, OSError),
)


def main(arguments: Sequence[str]) -> int:
    """Run one command, and return its exit status. Bad input starts no process."""
    escape_output()
    if not arguments:
        print(_USAGE, file=sys.stderr)
        return 2
    if arguments[0] in ("-h", "--help"):
        print(_USAGE)
        return 0
    try:
        return _run(arguments)
    except _REFUSED as error:
        print(one_line(f"error: {' '.join(str(error).split())}"), file=sys.stderr)
        return 2


def _run(arguments: Sequence[str]) -> int:
    """Import the module of a command, and run its `main`. Raises BadInput: there is no such command."""
    modules = modules_of(arguments)
    if not modules:
        raise BadInput(f"unknown command {arguments[0]!r}, wanted one of {', '.join(COMMANDS)}")
    words: tuple[list[str] | None, ...] = (list(arguments[1:]),)
    if arguments[0] in WITH_TARGETS:
        words = script_of(arguments[1:]) or (*words, None)
    status: int = import_module(modules[0]).main(*words)
    return status
