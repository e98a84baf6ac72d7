"""``python -m reference``."""

from __future__ import annotations

import os
import sys

from reference import interrupts

if __name__ == "__main__":
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        interrupts.leave_to_torchrun()
    interrupts.leave_at_once()
    try:
        from reference.cli import main

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
        status = 1
    sys.exit(status)
