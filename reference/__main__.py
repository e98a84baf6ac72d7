"""``python -m reference``."""

from __future__ import annotations

import os
import sys

from reference.system import interrupts

if __name__ == "__main__":
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        interrupts.leave_to_torchrun()
    interrupts.leave_at_once()  # before more is imported
    from reference.cli.main import modules_of, status_of

    sys.exit(status_of(*modules_of(sys.argv[1:])))
