"""``python -m tests.soak``: run the suite repeatedly in random order with random seeds. Exit status 1: a test failed.

A round's seed decides its order and all its examples, so a round can be repeated by its seed.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from faults.run.leftovers import marked
from faults.testing.leak_account import Accounting
from tests.project.junit import node_id

ROOT = Path(__file__).parents[1]
# The longest that a round may take, in seconds.
LIMIT = 3600.0
# A round may leave no process, no shared memory, and none of these files in its own folder. The files that pytest keeps
# for people are elsewhere as always: some tests have sockets there, whose paths must be short.
FILES = ("world-*", "faults-*")


@dataclass(frozen=True)
class Round:
    """``ran``: how many tests were not skipped; ``failed``: node ids; ``wrong``: why the round itself failed."""

    seed: int
    ran: int = 0
    failed: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    seconds: float = 0.0
    said: str = field(default="", repr=False)

    @property
    def bad(self) -> int:
        return len(self.failed) + len(self.wrong)


def arguments_of(seed: int, report: Path) -> list[str]:
    """Return pytest's arguments, which shuffle modules and their tests; `--faults-seed` is Hypothesis's seed, too."""
    order = ("--random-order-bucket=module", f"--random-order-seed={seed}")
    seeds = (f"--faults-seed={seed}", "--hypothesis-profile=seeded")
    return ["-q", "-p", "no:cacheprovider", *order, *seeds, f"--junitxml={report}", "-o", "junit_family=xunit1"]


def soaked(seed: int, folder: Path, given: Sequence[str], limit: float = LIMIT) -> Round:
    """Run one round; its output and report are kept in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    report, log, begun = folder / f"{seed}.xml", folder / f"{seed}.txt", time.monotonic()
    report.unlink(missing_ok=True)
    with marked() as mark, log.open("w") as output, tempfile.TemporaryDirectory(prefix="soak-") as temporary:
        accounting = Accounting(mark)
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *arguments_of(seed, report), *given],
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTEST_DEBUG_TEMPROOT": tempfile.gettempdir(), "TMPDIR": temporary},
        )
        try:
            status: int | None = process.wait(limit)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            process.kill()
            process.wait()
        left = [f"left {line}" for line in accounting.left()]
        left += [f"left temporary file {path.name}" for form in FILES for path in Path(temporary).glob(form)]
    ran, failed = _read(report) if report.exists() else (0, ())
    wrong = [*_wrong(status, ran, failed, limit), *left]
    return Round(seed, ran, failed, tuple(wrong), time.monotonic() - begun, log.read_text(errors="replace"))


def _wrong(status: int | None, ran: int, failed: tuple[str, ...], limit: float) -> list[str]:
    if status is None:
        return [f"not done after {limit:.0f} s"]
    if status not in (0, 1) or (status == 1 and not failed):
        return [f"pytest ended with {status}"]
    return [] if ran else ["no test ran"]


def _read(report: Path) -> tuple[int, tuple[str, ...]]:
    """Read how many tests ran, and which failed in set-up, body or teardown. An expected failure does not count."""
    ran, failed = set(), []
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        skipped = case.find("skipped")
        if skipped is None or skipped.get("type") == "pytest.xfail":
            ran.add(node_id(case))
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(node_id(case))
    return len(ran), tuple(dict.fromkeys(failed))


def summary(rounds: Sequence[Round]) -> list[str]:
    """List the failed tests with the seeds that repeat them, and the failures per thousand tests."""
    seeds = defaultdict(list)
    for each in rounds:
        for name in (*each.failed, *each.wrong):
            seeds[name].append(str(each.seed))
    lines = [f"FAILED {name}: with seed {', '.join(found)}" for name, found in sorted(seeds.items())]
    ran, bad = sum(each.ran for each in rounds), sum(each.bad for each in rounds)
    rate = f"{1000 * bad / ran:.3f} failures per thousand tests" if ran else "no test ran"
    minutes = sum(each.seconds for each in rounds) / 60
    return [*lines, f"{len(rounds)} rounds, {ran} tests, {bad} failures, {minutes:.1f} min: {rate}"]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, metavar="N", help="number of rounds (default: 10)")
    parser.add_argument(
        "--seed",
        type=int,
        metavar="N",
        help="seed of the first round, the next one for each further round (default: random)",
    )
    parser.add_argument(
        "--keep",
        type=Path,
        default=ROOT / ".soak",
        metavar="DIR",
        help="keep each round's output there (default: .soak)",
    )
    options, given = parser.parse_known_args(arguments)
    if options.rounds < 1:
        parser.error(f"--rounds must be at least 1, got {options.rounds}")
    first = random.SystemRandom().randrange(2**31) if options.seed is None else options.seed
    rounds: list[Round] = []
    try:
        for seed in range(first, first + options.rounds):
            rounds.append(soaked(seed, options.keep, [word for word in given if word != "--"]))
            _tell(rounds[-1], len(rounds), options.rounds)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    finally:
        print("\n".join(summary(rounds)), flush=True)
    return 1 if any(each.bad for each in rounds) else 0


def _tell(done: Round, number: int, count: int) -> None:
    if done.bad:
        print(done.said[-6000:], flush=True)
    text = f"round {number} of {count}: seed {done.seed}, {done.ran} tests, {done.bad} failures, {done.seconds:.0f} s"
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
