"""Try bugs against the tests that reach them, and ask what the results say. Needs a record: tests.coverage run.

    python -m tests.kills planted    the planted bugs, against all tests that reach them, not only to the first failure
    python -m tests.kills sample     bugs that operators make, drawn at random, each until a test notices it
    python -m tests.kills score      each room's share of the sample that was noticed, and the survivors
    python -m tests.kills spare      the tests that could go without losing a kill or a covered line
    python -m tests.kills unguarded  lines of which every bug that was tried has survived

The results are lines of JSON in .kills/results.jsonl. A command goes on where it was stopped, on the same sources;
with --again it tries once more what has survived, for instance against new tests, which the record must have.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from faults.cli.progress_bar import seconds_left
from reference.system import interrupts
from tests.coverage.probes import Probes, sources
from tests.coverage.record import Record
from tests.kills.operators import Drawn, drawn
from tests.kills.reaching import nearest, seconds_of
from tests.kills.results import Tried, add, load, score, spare, unguarded
from tests.mutants.catalog import MUTANTS
from tests.mutants.gate import WORKERS, Unhealthy, trials
from tests.mutants.mutant import Bug
from tests.mutants.trial import EVERY_FAILURE, SAMPLED

ROOT = Path(__file__).parents[2]
RECORD = ROOT / ".coverage-data" / "record.npz"
RESULTS = ROOT / ".kills" / "results.jsonl"
COUNT, SEED, SECONDS = 1500, 1, 60.0
SOURCES = ("reference/", "faults/")


@dataclass(frozen=True)
class Trying:
    """A bug to try. ``bug``: with the tests that reach it; ``places``: file and line; ``change``: in words."""

    kind: str
    bug: Bug
    places: tuple[tuple[str, int], ...]
    change: str


def planted(record: Record, seconds: Mapping[str, float]) -> Iterable[Trying]:
    """Yield the planted bugs that are planted into measured files, each with all tests that reach it."""
    for mutant in MUTANTS:
        places = tuple((file, line) for file, old, _ in mutant.places for line in lines_of(file, old))
        tests = tuple(dict.fromkeys((*mutant.killers, *nearest(record, places, seconds, SECONDS))))
        yield Trying("planted", replace(mutant, killers=tests), places, mutant.models)


def lines_of(file: str, old: str) -> list[int]:
    """Return the lines on which the text to replace stands."""
    before, _, _ = (ROOT / file).read_text().partition(old)
    first = before.count("\n") + 1
    return [first + number for number, line in enumerate(old.splitlines()) if line.strip()]


def sample(record: Record, seconds: Mapping[str, float], count: int, seed: int) -> Iterable[Trying]:
    """Yield bugs that operators make, each with tests that reach it."""
    files = sorted({file for file, _ in record.probes if file.startswith(SOURCES)})
    for bug in drawn(ROOT, files, count, seed):
        places = ((bug.file, bug.line),)
        yield Trying("drawn", replace(bug, killers=nearest(record, places, seconds, SECONDS)), places, change(bug))


def change(bug: Drawn) -> str:
    """Say what becomes what, in one line."""
    return f"{bug.operator}: {' '.join(bug.old.split())[:80]} -> {' '.join(bug.new.split())[:80] or 'nothing'}"


def try_all(todo: Sequence[Trying], sources: str, seconds: float, *, every_failure: bool, again: bool) -> None:
    """Try what was not tried before, and add each result to the file as it comes."""
    known = {(each.kind, each.name) for each in load(RESULTS, sources) if each.noticed or not again}
    left = [each for each in todo if (each.kind, each.bug.name) not in known]
    for each in left:
        if not each.bug.killers:
            add(RESULTS, Tried(sources, each.kind, each.bug.name, each.change, each.places, "unreached", (), (), 0.0))
    of_bug = {each.bug.name: each for each in left if each.bug.killers}
    begun, extent = time.monotonic(), EVERY_FAILURE if every_failure else SAMPLED
    bugs = [each.bug for each in of_bug.values()]
    for number, result in enumerate(trials(ROOT, bugs, WORKERS, seconds, extent) if bugs else (), 1):
        trial, each = result.trial, of_bug[result.mutant.name]
        found = (trial.verdict, trial.failed, trial.passed, round(trial.seconds, 2))
        add(RESULTS, Tried(sources, each.kind, each.bug.name, each.change, each.places, *found))
        rest = seconds_left(number, len(bugs), time.monotonic() - begun, None)
        print(f"{number} of {len(bugs)}: {each.bug.name} {trial.verdict}, about {rest:.0f} s left", file=sys.stderr)


def print_score(results: Sequence[Tried]) -> None:
    """Print the survivors, and each room's share."""
    of_sample = [each for each in results if each.kind == "drawn"]
    for each in sorted(of_sample, key=lambda each: each.places):
        if not each.noticed:
            file, line = each.places[0]
            print(f"{file}:{line}: {each.verdict}: {each.change}")
    for room, (noticed, every) in score(of_sample).items():
        print(f"{room:<32}{noticed:>6} of {every:>5}{100 * noticed / every:>8.1f} %")


def print_spare(results: Sequence[Tried], record: Record, seconds: dict[str, float]) -> None:
    """Print the tests that could go, the longest first."""
    found = list(spare(results, record, seconds))
    for test in found:
        print(f"{seconds[test]:7.2f} s {test}")
    print(f"{len(found)} of {len(record.tests)} tests, {sum(seconds[test] for test in found):.0f} s")


def print_unguarded(results: Sequence[Tried]) -> None:
    """Print the lines, by file."""
    for file, lines in unguarded(results).items():
        print(f"{file}: {', '.join(map(str, lines))}")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        "python -m tests.kills", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("planted", "sample", "score", "spare", "unguarded"))
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
    seconds = seconds_of(record.tests)
    if options.command in ("planted", "sample"):
        interrupts.listen()
        of_sample = options.command == "sample"
        todo = sample(record, seconds, options.count, options.seed) if of_sample else planted(record, seconds)
        try:
            try_all(list(todo), record.digest, options.seconds, every_failure=not of_sample, again=options.again)
        except Unhealthy as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            return interrupts.STATUS
        return 0
    results = load(RESULTS, record.digest)
    if options.command == "score":
        print_score(results)
    elif options.command == "spare":
        print_spare(results, record, seconds)
    else:
        print_unguarded(results)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
