"""``python -m tests.mutants [NAME ...]``: plant each bug; a test must notice it. Exit status 1: one survived."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from faults.cli.progress_bar import seconds_left
from reference.system import interrupts
from tests.mutants.catalog import MUTANTS
from tests.mutants.checkout import NoCheckout
from tests.mutants.gate import WORKERS, Unhealthy, control, trials
from tests.mutants.mutant import Bug, Mutant
from tests.mutants.nearest import nearest
from tests.mutants.trial import Trial

ROOT = Path(__file__).parents[2]
# Seconds for which trials begin in any case.
LEAST = 30.0


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these mutants (default: all)")
    text = "first run each N-th of their killers on the healthy code, or none if N is 0 (default: each)"
    parser.add_argument("--control", type=int, default=1, metavar="N", help=text)
    parser.add_argument("--changed", action="store_true", help="first those that the change since nightly concerns")
    parser.add_argument("--seconds", type=float, default=math.inf, metavar="N", help="begin no trial later")
    text = f"nor later than this, in seconds since the epoch, but in the first {LEAST:.0f} s"
    parser.add_argument("--until", type=float, default=math.inf, metavar="TIME", help=text)
    options = parser.parse_args(arguments)
    known = {each.name: each for each in MUTANTS}
    unknown = [name for name in options.names if name not in known]
    if unknown:
        near = ", ".join(get_close_matches(unknown[0], known) or list(known)[:3])
        parser.error(f"no mutant {', '.join(unknown)}; wanted names as in tests/mutants/bugs, such as {near}")
    chosen = [known[name] for name in options.names] or list(MUTANTS)
    if options.changed:
        chosen = nearest(chosen)
    interrupts.listen()  # a time limit or a closed terminal must leave no copy and no process either
    try:
        if options.control:
            killers = [test for each in chosen for test in each.killers][:: options.control]
            _say(f"{len(killers)} killers on the healthy code, where they must pass")
            _say(f"they pass, after {control(ROOT, killers):.0f} s")
        return _try(chosen, min(options.seconds, max(options.until - time.time(), LEAST)))
    except (Unhealthy, NoCheckout) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return interrupts.STATUS


def _try(chosen: Sequence[Mutant], seconds: float) -> int:
    """Try the mutants, print how each ended, and return the exit status."""
    begun, number, bad = time.monotonic(), 0, list[tuple[Bug, Trial]]()
    for number, (bug, trial) in enumerate(trials(ROOT, chosen, WORKERS, seconds), 1):
        rest = seconds_left(number, len(chosen), time.monotonic() - begun, None)
        how = f"{trial.verdict}{' by ' if trial.failed else ''}{', '.join(trial.failed)}"
        _say(f"{number} of {len(chosen)}: {bug.name} {how}, {trial.seconds:.1f} s; about {rest:.0f} s left")
        if trial.verdict != "killed":
            bad.append((bug, trial))
    if not number:
        print(f"error: no trial began within {seconds:.0f} s", file=sys.stderr)
        return 1
    if number < len(chosen):
        _say(f"{len(chosen) - number} mutants were not tried within {seconds:.0f} s")
    models = {each.name: each.models for each in chosen}
    for bug, trial in bad:
        print(f"{trial.verdict.upper()}: {bug.name} ({models[bug.name]}): {', '.join(bug.killers)}")
        if trial.verdict != "survived":
            print(trial.said[-2000:])
    print(f"{number - len(bad)} of {number} mutants killed")
    return 1 if bad else 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
