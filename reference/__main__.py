"""``python -m reference``, or ``rpc-reference``."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from pathlib import Path

from reference.system import interrupts


def main() -> None:
    """Run the command of this process's arguments, and leave with its exit status."""
    if interrupts.under_torchrun():
        interrupts.leave_to_torchrun()
    interrupts.leave_at_once()  # before more is imported
    here = PathFinder.find_spec("reference", [""])  # where `rpc-reference` was started: perhaps another project's
    if here and here.origin and not Path(here.origin).with_name("outcome.py").exists():
        sys.stderr.write(f"error: {here.origin} would hide the package `reference` in the processes of roles\n")
        sys.exit(2)
    from reference.cli.main import modules_of, status_of

    sys.exit(status_of(*modules_of(sys.argv[1:])))


if __name__ == "__main__":
    main()
