"""``python -m reference``, or ``rpc-reference``."""

from __future__ import annotations

import os
import sys

from reference.system import interrupts


def main() -> None:
    """Run the command of this process's arguments, and leave with its exit status."""
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        interrupts.leave_to_torchrun()
    interrupts.leave_at_once()  # before more is imported
    from torch_rpc_reference_startup import hiding, say

    if hidden := hiding("", packages=["reference"]):  # in the processes of roles, after `rpc-reference`
        say(hidden)
        sys.exit(2)
    from reference.cli.main import modules_of, status_of

    sys.exit(status_of(*modules_of(sys.argv[1:])))


if __name__ == "__main__":
    main()
