"""``python -m faults``."""

from __future__ import annotations

import sys

from reference.command import status_of

if __name__ == "__main__":
    sys.exit(status_of("faults.cli", failed=2))
