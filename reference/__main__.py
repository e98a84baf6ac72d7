"""``python -m reference``."""

import sys

if __name__ == "__main__":
    try:
        from reference.cli import main

        status = main(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        status = 130
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        status = 1
    sys.exit(status)
