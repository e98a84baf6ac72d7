"""``python -m faults``: run a program under a plan, sweep it, judge a stored run.

Exit status 0: pass; 1: fail; 2: unknown, or bad input; 130: interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from faults.cli.commands import check, prepare, run_one
from faults.cli.list_command import show_sites
from faults.cli.sweep_command import run_sweep
from faults.inject.network.network import NetworkError
from faults.ledger.record import RecordError
from faults.plan.plan import PlanError
from faults.run.sweep import SweepFailed
from reference.cli.options import BadInput
from reference.outcome import WorldError
from reference.system.printable import escape_output, one_line
from reference.trace.case import CaseError

_USAGE = """usage: python -m faults COMMAND

  list NAME                        list the RPC calls of a tutorial's healthy run, which faults can hit
  list --script my.py              list those of your own program, with a plan for each call and moment
  run NAME --plan PLAN [options]   run a tutorial once under a plan, and judge the run
  run --plan PLAN --script my.py   run your own program, unchanged, once under a plan, and judge the run
  sweep NAME [options]             run a tutorial once for each call site, kind of fault, and first and last call
  prepare DIR --plan PLAN          prepare a folder for programs that are started with FAULTS_RUN=DIR
  check DIR                        judge a stored run again

PLAN is a text or a file with at least one fault (docs/faults.md). `--healthy` in its place: a run without faults.
`COMMAND NAME --help` lists the options for a tutorial, `COMMAND --help --script` those for your own program.
Write options in full, each at most once, and before `--script`.
Exit status 0: pass; 1: fail; 2: unknown, or bad input (then no process was started); 130: interrupted."""

_COMMANDS = {"list": show_sites, "run": run_one, "sweep": run_sweep, "prepare": prepare, "check": check}


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
        if arguments[0] not in _COMMANDS:
            raise BadInput(f"unknown command {arguments[0]!r}, wanted one of {', '.join(_COMMANDS)}")
        return _COMMANDS[arguments[0]](arguments[1:])
    except (BadInput, PlanError, CaseError, WorldError, NetworkError, RecordError, SweepFailed) as error:
        print(one_line(f"error: {' '.join(str(error).split())}"), file=sys.stderr)
        return 2
    except OSError as error:
        print(one_line(f"error: {error}"), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
