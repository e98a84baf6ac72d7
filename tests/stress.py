"""``python -m tests.stress``: check that many worlds in one process, and randomly killed commands, leave nothing.

Exit status 1: a process, shared memory, a temporary file, a descriptor or a thread is left. The seed decides moments
and signals; what a command is doing at a moment depends on the machine.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from faults.run.leftovers import marked
from faults.testing.leak_account import Accounting
from reference.outcome import Returned
from reference.world import launch
from tests.support import own_process, roles_plain

ROOT = Path(__file__).parents[1]
COMMAND = (sys.executable, "-m", "reference", "run", "parameter_server", "--steps", "20")
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# Seconds that a command has to end after it is asked to, or its launcher is killed.
LIMIT = 30.0


@contextmanager
def _own_folder() -> Iterator[Path]:
    """Make a folder for temporary files, including this process's."""
    before = tempfile.tempdir, os.environ.get("TMPDIR")
    with tempfile.TemporaryDirectory(prefix="stress-") as folder:
        tempfile.tempdir = os.environ["TMPDIR"] = folder
        try:
            yield Path(folder)
        finally:
            tempfile.tempdir = before[0]
            os.environ.pop("TMPDIR")
            if before[1] is not None:
                os.environ["TMPDIR"] = before[1]


def worlds(count: int) -> list[str]:
    """Launch worlds one after the other. Print the memory that was needed, and return a line per thing left."""
    one_world()  # starts the forkserver and makes its folder, which both stay
    with marked() as mark, _own_folder() as folder:
        accounting, held, before = Accounting(mark), own_process.everything(), _peak()
        for _ in range(count):
            one_world()
        left = [*accounting.left(), *own_process.left_since(held), *_files(folder)]
        print(f"{count} worlds: the launching process grew by {_peak() - before} KiB", flush=True)
    return left


def _files(folder: Path) -> list[str]:
    """Name the temporary files, except torch's cache, which an import makes."""
    names = sorted(path.name for path in folder.iterdir())
    return [f"temporary file {name}" for name in names if not name.startswith("torchinductor_")]


def one_world() -> None:
    with launch(dict.fromkeys("ab", roles_plain.nothing)) as world:
        assert all(isinstance(outcome, Returned) for outcome in world.wait().values()), world.outcomes


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def kills(count: int, seed: int) -> list[str]:
    """Run a tutorial ``count`` times, and end its launching process at a random moment within a whole run."""
    chance, left = random.Random(seed), list[str]()
    whole = run_command(None, signal.SIGKILL)[0]
    for number in range(count):
        moment, how = chance.uniform(0.0, whole), chance.choice(SIGNALS)
        seconds, found = run_command(moment, how)
        left += [f"kill {number}, {how.name} after {moment:.2f} s: {each}" for each in found]
        if seconds - moment > LIMIT:
            left.append(f"kill {number}, {how.name} after {moment:.2f} s: ended {seconds - moment:.0f} s later")
    print(f"{count} kills within {whole:.1f} s", flush=True)
    return left


def run_command(moment: float | None, how: signal.Signals) -> tuple[float, list[str]]:
    """Run the command. Return the seconds until its end, and what it leaves."""
    with marked() as mark, _own_folder() as folder:
        accounting, begun = Accounting(mark), time.monotonic()
        process = subprocess.Popen(COMMAND, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(moment)
        except subprocess.TimeoutExpired:
            process.send_signal(how)
        try:
            process.wait(2 * LIMIT)
        finally:
            process.kill()
            process.wait()
        seconds = time.monotonic() - begun
        # Only the next launcher cleans up after SIGKILL.
        return seconds, [*accounting.left(), *([] if how == signal.SIGKILL else _files(folder))]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.stress", description=__doc__)
    parser.add_argument("--worlds", type=int, default=300, metavar="N", help="number of worlds (default: 300)")
    parser.add_argument("--kills", type=int, default=60, metavar="N", help="number of killed commands (default: 60)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of moments and signals (default: 0)")
    options = parser.parse_args(arguments)
    left = [*worlds(options.worlds), *kills(options.kills, options.seed)]
    print("\n".join(left) or "nothing is left")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
