"""``python -m tests.mutants [NAME ...]``: plant each bug; a test must notice it. Exit status 1: one survived."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from faults.cli.progress_bar import seconds_left
from reference.system import interrupts
from tests.mutants.catalog import MUTANTS
from tests.mutants.checkout import NoCheckout
from tests.mutants.gate import WORKERS, Result, Unhealthy, control, trials
from tests.mutants.mutant import Mutant
from tests.mutants.nearest import nearest

ROOT = Path(__file__).parents[2]
# Seconds for which trials begin in any case.
LEAST = 30.0


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these mutants (default: all)")
    text = "first run each N-th of their killers on the healthy code, or none if N is 0 (default: each)"
    parser.add_argument("--control", type=int, default=1, metavar="N", help=text)
    parser.add_argument("--changed", action="store_true", help="only those that the change since nightly concerns")
    parser.add_argument("--seconds", type=float, default=math.inf, metavar="N", help="begin no trial later")
    text = f"nor later than this, in seconds since the epoch, but in the first {LEAST:.0f} s"
    parser.add_argument("--until", type=float, default=math.inf, metavar="TIME", help=text)
    options = parser.parse_args(arguments)
    known = {each.name: each for each in MUTANTS}
    unknown = [name for name in options.names if name not in known]
    if unknown:
        near = ", ".join(get_close_matches(unknown[0], known) or list(known)[:3])
        parser.error(f"no mutant {', '.join(unknown)}; wanted names as in tests/mutants, such as {near}")
    chosen = [known[name] for name in options.names] or list(MUTANTS)
    if options.changed:
        concerned = nearest(chosen)
        _say(f"{len(concerned)} of {len(chosen)} mutants may have another result than when all of them were killed")
        chosen = concerned
    seconds = min(options.seconds, max(options.until - time.time(), LEAST))
    results: list[Result] = []
    interrupts.listen()  # a time limit or a closed terminal must leave no copy and no process either
    try:
        if options.control:
            killers = [test for each in chosen for test in each.killers][:: options.control]
            _say(f"{len(killers)} killers on the healthy code, where they must pass")
            _say(f"they pass, after {control(ROOT, killers):.0f} s")
        _try(chosen, results, seconds)
    except (Unhealthy, NoCheckout) as error:
        if len(results) == len(chosen):  # the healthy code of later trials was not that of the first one
            _report(chosen, results)
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return interrupts.STATUS
    tried = [result.mutant for result in results]
    if chosen and not tried:
        print(f"error: no trial began within {seconds:.0f} s", file=sys.stderr)
        return 1
    if len(tried) < len(chosen):
        _say(f"{len(chosen) - len(tried)} mutants were not tried within {seconds:.0f} s")
    return _report([each for each in chosen if each in tried], results)


def _try(chosen: Sequence[Mutant], results: list[Result], seconds: float) -> None:
    begun = time.monotonic()
    for result in trials(ROOT, chosen, WORKERS, seconds) if chosen else ():
        results.append(result)
        rest = seconds_left(len(results), len(chosen), time.monotonic() - begun, None)
        _say(f"{len(results)} of {len(chosen)}: {result.mutant.name} {result.trial.verdict}, about {rest:.0f} s left")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _report(chosen: Sequence[Mutant], results: Sequence[Result]) -> int:
    """Print the table and the failures; return the exit status."""
    console = Console(width=None if sys.stdout.isatty() else 170)
    console.print(_table(chosen, results))
    bad, models = [result for result in results if not result.killed], {each.name: each.models for each in chosen}
    for result in bad:
        mutant, trial = result.mutant, result.trial
        print(f"{trial.verdict.upper()}: {mutant.name} ({models[mutant.name]}): {', '.join(mutant.killers)}")
        if trial.verdict != "survived":
            print(trial.said[-2000:])
    print(f"{len(results) - len(bad)} of {len(chosen)} mutants killed")
    return 1 if bad else 0


def _table(chosen: Sequence[Mutant], results: Sequence[Result]) -> Table:
    table = Table(title=f"{len(chosen)} mutants")  # names of tests have brackets, which are no markup
    for column in ("mutant", "in", "killed by"):
        table.add_column(column, overflow="fold")
    table.add_column("seconds", justify="right")
    found = {result.mutant.name: result.trial for result in results}
    for mutant in chosen:
        trial = found[mutant.name]
        killer = trial.failed[0].removeprefix("tests/") if trial.verdict == "killed" else trial.verdict.upper()
        table.add_row(mutant.name, mutant.file, escape(killer), f"{trial.seconds:.1f}")
    return table


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
