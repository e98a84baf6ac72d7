"""Run ``prepare`` of ``python -m faults``: a folder with a plan, for programs that something else starts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from faults.cli.options import HEALTHY, LEAKS, PLAN, parser_of, plan_of
from faults.ledger.run_files import renewed
from faults.script.autostart import VARIABLE
from faults.script.script import check_network
from reference.cli.options import BadInput
from reference.system.text import shown


def main(arguments: Sequence[str]) -> int:
    """Prepare a folder for programs that something else starts, such as torchrun on several machines."""
    about = (
        "Prepare a folder with a plan, or with --healthy one that only records calls. "
        "Programs use it if they are started with FAULTS_RUN=DIR."
    )
    parser = parser_of("prepare", about, PLAN, HEALTHY, LEAKS)
    parser.add_argument("dir", metavar="DIR", help="the run's folder; files of an earlier run are removed")
    options = parser.parse_args(arguments)
    if not str(Path(options.dir).absolute()).isprintable():
        raise BadInput(f"prepare {shown(options.dir)}: wanted a folder whose name can be printed")
    plan = plan_of(options)
    check_network(plan)
    with renewed(plan, options.dir, trace=options.leaks == "trace") as place:
        print(f"{VARIABLE}={place}")
    return 0
