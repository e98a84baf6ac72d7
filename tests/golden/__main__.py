"""Golden runs: stored runs, each with the verdict that was written down for it.

``python -m tests.golden judge [NAME ...]``: judge them again, and print those whose verdict differs; exit status 1 if
one does. ``python -m tests.golden record [NAME ...]``: make the runs anew, and store them; exit status 1 if one has not
the verdict that was written down. A NAME is a pattern, such as 'matrix/rnn-*'.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from tests.golden import store
from tests.golden.judging import judged, stale
from tests.golden.rows import Row, rows


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.golden", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=["judge", "record"])
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these rows (default: all)")
    parser.add_argument("-n", type=int, default=1, metavar="N", dest="workers", help="record N at a time (default: 1)")
    options = parser.parse_intermixed_args(arguments)
    for name in options.names:
        if not any(fnmatchcase(each, name) for each in rows()):
            parser.error(f"no row is named {name!r}")
    patterns = options.names or ["*"]
    chosen = [row for name, row in rows().items() if any(fnmatchcase(name, pattern) for pattern in patterns)]
    if options.command == "judge":
        return _judge(chosen, whole=not options.names)
    return _record(chosen, options.workers)


def _judge(chosen: Sequence[Row], *, whole: bool) -> int:
    with tempfile.TemporaryDirectory(prefix="golden-") as folder:
        found = list(judged(Path(folder), chosen))
        wrong = stale(Path(folder), found) if whole else []
    differing = [str(each) for each in found if each.differs]
    print("".join(f"{line}\n" for line in (*differing, *wrong)), end="")
    print(f"{len(found)} runs judged, {len(differing)} differ")
    return 1 if differing or wrong else 0


def _record(chosen: Sequence[Row], workers: int) -> int:
    from tests.golden import recording  # imports torch and all tutorials

    begun, made, refused = time.monotonic(), dict[str, store.Files](), list[str]()
    try:
        for number, (row, found) in enumerate(recording.record(chosen, workers), 1):
            print(f"{time.monotonic() - begun:5.0f} s  {number}  {row}", flush=True)
            if isinstance(found, str):
                refused.append(str(row))
                print(found, flush=True)
            else:
                made[str(row)] = found
    except KeyboardInterrupt:
        print("interrupted: what was recorded is stored", file=sys.stderr)
        return 130
    finally:
        recording.finish(made)
    print(f"{len(made)} recorded, {len(refused)} refused")
    print("".join(f"refused: {name}\n" for name in refused), end="")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
