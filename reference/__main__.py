"""``python -m reference``."""

import sys

from reference.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
