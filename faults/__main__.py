"""``python -m faults``."""

from __future__ import annotations

import signal
import sys

from faults.cli import main

if __name__ == "__main__":
    # What a time limit around it sends must not leave its script running any more than Ctrl-C may.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))
