"""``python -m faults``."""

from __future__ import annotations

import sys

from torch_rpc_reference_startup import hiding, say

if __name__ == "__main__":
    if hidden := hiding():
        say(hidden)
        sys.exit(2)
    from faults.script import autostart
    from reference.cli.command import status_of

    autostart.leave_alone()
    sys.exit(status_of("faults.cli.main", failed=2))
