"""``python -m faults``: run a program under a plan, sweep it, judge a stored run.

Exit status 0: pass; 1: fail; 2: unknown, or bad input; 130: interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from faults.cli.commands import check, prepare, run_one, show_sites
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

  list NAME                        the calls of a tutorial's healthy run: what can be hurt
  run NAME --plan PLAN [options]   one run of a tutorial under a plan, judged
  run --plan PLAN --script my.py   the same for a program of your own, unchanged
  sweep NAME [options]             one run for every call site, kind, and first and last occurrence
  prepare DIR --plan PLAN          a folder for FAULTS_RUN=DIR torchrun ... my.py
  check DIR                        judge a stored run again

PLAN is text or a file, of one fault at least: docs/faults.md. `--healthy` instead of it: a run without faults.
Options stand before `--script`, whole and once. `COMMAND --help` has them, `run --help --script` a program's.
Exit status 0: pass; 1: fail; 2: unknown, or bad input, which starts nothing; 130: interrupted."""

_COMMANDS = {"list": show_sites, "run": run_one, "sweep": run_sweep, "prepare": prepare, "check": check}


def main(arguments: Sequence[str]) -> int:
    """The exit status. No process is started on bad input."""
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
