"""Try bugs that operators make against the tests that reach them, and ask what the results say.

    python -m tests.kills sample     draw bugs at random, and try each until a test notices it
    python -m tests.kills score      each room's share of the sample that was noticed, and the survivors

Both need a record of `python -m tests.coverage run`. The results are lines of JSON in .kills/results.jsonl. `sample`
goes on where it was stopped, on the same sources; with --again it tries once more what has survived, for instance
against new tests, which the record must have.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from faults.cli.progress_bar import seconds_left
from reference.system import interrupts
from tests.coverage.probes import Probes, sources
from tests.coverage.record import Record
from tests.kills.operators import Drawn, drawn
from tests.kills.reaching import nearest, seconds_of
from tests.kills.results import Tried, add, load, score
from tests.mutants.gate import WORKERS, Unhealthy, trials
from tests.mutants.trial import SAMPLED

ROOT = Path(__file__).parents[2]
RECORD = ROOT / ".coverage-data" / "record.npz"
RESULTS = ROOT / ".kills" / "results.jsonl"
COUNT, SEED, SECONDS = 1500, 1, 60.0
SOURCES = ("reference/", "faults/")


def sample(record: Record, seconds: Mapping[str, float], count: int, seed: int) -> list[Drawn]:
    """Return bugs that operators make, each with tests that reach it."""
    files = sorted({file for file, _ in record.probes if file.startswith(SOURCES)})
    bugs = drawn(ROOT, files, count, seed)
    return [replace(bug, killers=nearest(record, bug.file, bug.line, seconds, SECONDS)) for bug in bugs]


def try_all(bugs: Sequence[Drawn], digest: str, seconds: float, *, again: bool) -> None:
    """Try what was not tried before, and add each result to the file as it comes."""
    known = {each.name for each in load(RESULTS, digest) if each.noticed or not again}
    todo = {bug.name: bug for bug in bugs if bug.name not in known}

    def found(name: str, verdict: str, failed: tuple[str, ...] = ()) -> None:
        bug = todo[name]
        add(RESULTS, Tried(digest, name, bug.change, bug.file, bug.line, verdict, failed))

    for bug in todo.values():
        if not bug.killers:
            found(bug.name, "unreached")
    reached, begun = [bug for bug in todo.values() if bug.killers], time.monotonic()
    for number, (each, trial) in enumerate(trials(ROOT, reached, WORKERS, seconds, SAMPLED), 1):
        found(each.name, trial.verdict, trial.failed)
        rest = seconds_left(number, len(reached), time.monotonic() - begun, None)
        print(f"{number} of {len(reached)}: {each.name} {trial.verdict}, about {rest:.0f} s left", file=sys.stderr)


def print_score(results: Sequence[Tried]) -> None:
    """Print the survivors, and each room's share."""
    for each in sorted(results, key=lambda each: (each.file, each.line)):
        if not each.noticed:
            print(f"{each.file}:{each.line}: {each.verdict}: {each.change}")
    for room, (noticed, every) in score(results).items():
        print(f"{room:<32}{noticed:>6} of {every:>5}{100 * noticed / every:>8.1f} %")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        "python -m tests.kills", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("sample", "score"))
    parser.add_argument("--count", type=int, default=COUNT, metavar="N", help=f"bugs of the sample (default: {COUNT})")
    parser.add_argument("--seed", type=int, default=SEED, metavar="N", help=f"of the sample (default: {SEED})")
    parser.add_argument("--seconds", type=float, default=math.inf, metavar="N", help="begin no trial later")
    parser.add_argument("--again", action="store_true", help="also what was tried before and has survived")
    options = parser.parse_args(arguments)
    if not RECORD.exists():
        parser.error("no record says which tests reach which line, wanted that of `python -m tests.coverage run`")
    record = Record.load(RECORD)
    if Probes(ROOT, sources(ROOT)).digest != record.digest:
        parser.error("the record is of other sources, wanted a new one: `python -m tests.coverage run`")
    if options.command == "score":
        print_score(load(RESULTS, record.digest))
        return 0
    interrupts.listen()
    bugs = sample(record, seconds_of(record.tests), options.count, options.seed)
    try:
        try_all(bugs, record.digest, options.seconds, again=options.again)
    except Unhealthy as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return interrupts.STATUS
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
