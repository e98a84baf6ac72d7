"""``python -m faults``."""

from __future__ import annotations

import sys

from torch_rpc_reference_startup import hiding, say

if __name__ == "__main__":
    if hidden := hiding():
        say(hidden)
        sys.exit(2)
    from faults.script import autostart

    autostart.leave_alone()  # before other modules of this package, whose import would start the plan
    from faults.cli.commands import module_of
    from reference.cli.command import status_of

    module = module_of(sys.argv[1:])
    sys.exit(status_of("faults.cli.main", *([module] if module else []), failed=2))
