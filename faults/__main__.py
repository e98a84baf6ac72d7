"""``python -m faults``, or ``rpc-faults``."""

from __future__ import annotations

import os
import signal
import sys


def _leave(number: int, frame: object) -> None:
    try:
        os.write(2, b"interrupted\n")  # nobody may read it any more
    finally:
        os._exit(130)


def main() -> None:
    """Run the command of this process's arguments, and leave with its exit status."""
    if sys.platform != "linux":
        sys.stderr.write(f"error: wanted Linux, got {sys.platform}\n")
        sys.exit(2)
    # As `interrupts.leave_at_once` does; but until `hiding` has answered, that module may be another project's.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number == signal.SIGTERM or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _leave)
    from torch_rpc_reference_startup import hiding, say

    if hidden := hiding(""):  # the folder's modules come first in the processes of roles
        say(hidden)
        sys.exit(2)
    from faults.script import autostart

    autostart.leave_alone()  # before other modules of this package, whose import would start the plan
    from faults.cli.options import modules_of
    from reference.cli.main import status_of

    sys.exit(status_of("faults.cli.main", *modules_of(sys.argv[1:])))


if __name__ == "__main__":
    main()
