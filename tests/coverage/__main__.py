"""Measure which tests reach which line, and ask what was measured.

    python -m tests.coverage run [ARGUMENTS OF PYTEST]   run tests; adds to earlier runs of the same sources
    python -m tests.coverage rooms                       each room's statements, ways past them, and the share reached
    python -m tests.coverage missing [FOLDER OR FILE]    the statements and ways that no test reaches
    python -m tests.coverage contexts FILE:LINE          the tests that reach a line

A way past a statement: an `if` or a loop without `else` whose condition is false, or which ends by itself. Every other
branch begins with a statement of its own.

Not measured: what TorchScript executes, an installed copy of the packages, and processes whose environment a test
replaces altogether. Tests that other commands run in this checkout meanwhile are slower, and are not measured.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tests.coverage.probes import MEASURED, VARIABLE, Probes, sources
from tests.coverage.record import Record

ROOT = Path(__file__).parents[2]


def run(arguments: Sequence[str], file: Path, root: Path, measured: Sequence[str]) -> int:
    """Run pytest, add what its tests reach to the record in ``file``, and return pytest's status."""
    with tempfile.TemporaryDirectory() as folder:
        probes = Probes(root, sources(root, measured))
        record = Record(probes.digest, probes.all, [], np.zeros((0, len(probes.all)), bool))
        if file.exists() and (earlier := Record.load(file)).digest == record.digest:
            record = earlier
        for number in (signal.SIGTERM, signal.SIGHUP):  # so that no file keeps its probes
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, lambda number, _: sys.exit(128 + number))
        try:
            with probes.planted():
                command = [sys.executable, "-m", "pytest", "-p", "tests.coverage.contexts", *arguments]
                told = json.dumps([folder, probes.name, len(probes.all), probes.packages])
                return subprocess.run(command, env={**os.environ, VARIABLE: told}).returncode
        finally:  # an interrupted run, too, counts as far as it came
            record.add(Path(folder))
            file.parent.mkdir(parents=True, exist_ok=True)
            record.save(file)


def rooms(record: Record) -> None:
    sums: defaultdict[str, list[int]] = defaultdict(lambda: [0] * 3)
    for name, lines in record.reached().items():
        ways = sum(line < 0 for line in lines)
        for room in (str(Path(name).parent), "all"):
            new = (len(lines) - ways, ways, sum(lines.values()))
            sums[room] = [old + each for old, each in zip(sums[room], new, strict=True)]
    print(f"{'room':<32}{'statements':>11}{'ways past':>10}{'reached':>10}")
    for room, (statements, ways, reached) in sorted(sums.items(), key=lambda item: (item[0] == "all", item)):
        print(f"{room:<32}{statements:>11}{ways:>10}{100 * reached / (statements + ways):>8.1f} %")


def missing(record: Record, root: Path, below: str) -> None:
    for name, lines in record.reached().items():
        if not name.startswith(below):
            continue
        text = (root / name).read_text().splitlines()
        for line in sorted(lines, key=abs):
            if not lines[line] and (line > 0 or lines[-line]):
                note = "" if line > 0 else "   # no way past it"
                print(f"{name}:{abs(line)}: {text[abs(line) - 1].strip()}{note}")


def main(arguments: Sequence[str]) -> int:
    parser = ArgumentParser(
        "python -m tests.coverage", description=__doc__, formatter_class=RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", type=Path, default=ROOT / ".coverage-data" / "record.npz")
    parser.add_argument("--root", type=Path, default=ROOT, help="the folder to which names are relative")
    parser.add_argument("--measured", action="append", help="a file or folder below it; more may follow")
    parser.add_argument("command", choices=("run", "rooms", "missing", "contexts"))
    known, rest = parser.parse_known_args(arguments)
    root = known.root.resolve()
    if known.command == "run":
        try:
            return run(rest, known.record, root, known.measured or MEASURED)
        except BlockingIOError:
            parser.error("another run measures these files")
    record = Record.load(known.record)
    if known.command == "rooms":
        rooms(record)
    elif known.command == "missing":
        missing(record, root, *rest or [""])
    else:
        name, _, line = rest[0].rpartition(":")
        at, tests = record.covering(name, int(line))
        print(f"{len(tests)} tests reach {name}:{at}", *tests, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
