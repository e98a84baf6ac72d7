"""``python -m faults``."""

from __future__ import annotations

import sys

from reference import interrupts

if __name__ == "__main__":
    interrupts.leave_at_once()
    try:
        from faults.cli import main

        # What a time limit sends, or a terminal that is closed, must not leave the script running either.
        interrupts.listen()
        status = main(sys.argv[1:])
        sys.stdout.flush()
        interrupts.over()
    except KeyboardInterrupt:
        interrupts.over()
        print("interrupted", file=sys.stderr)
        status = interrupts.STATUS
    except OSError as error:
        interrupts.over()
        print(f"error: {error}", file=sys.stderr)
        status = 2
    sys.exit(status)
