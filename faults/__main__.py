"""``python -m faults``."""

from __future__ import annotations

import signal
import sys

if __name__ == "__main__":
    # What a time limit around it sends must not leave its script running any more than Ctrl-C may.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        from faults.cli import main

        status = main(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        status = 130
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        status = 2
    sys.exit(status)
