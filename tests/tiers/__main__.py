"""``python -m tests.tiers ci|nightly|weekly``: all checks of a change, in some ten minutes; all checks that there are,
in 75; or how much the checks themselves notice, in four hours at most.

Exit status 1: one failed. `nightly` and `weekly` go on after a failure; ``--continue`` runs what has not passed on this
commit. When all of `nightly` has passed, it names the commit in tests/tiers/nightly.json, from which CI tells what has
changed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from reference.system import interrupts
from tests.tiers.changes import NIGHTLY, ROOT, changed, git, tree
from tests.tiers.stages import Job, Stage, ended_well, report, run

KEPT = ROOT / ".tiers"
# CI begins to try planted bugs for so many seconds, with the start and the last ones three minutes; where a machine is
# slow, only until so many have passed since CI began, because CI is to end within 12 minutes.
BUGS, BUGS_UNTIL = 130, 540
# What decides the verdict of verify's rows that train ResNet50: the versions, and the files whose paths begin so.
RESNET = (
    "constraints.txt",
    *(f"reference/{name}" for name in ("batch_parameter_server", "sharded_parameter_server", "pipeline")),
    *(f"reference/{room}/" for room in ("exact", "rounding", "rpc", "trace", "training", "verify", "world")),
)

HOUR = 3600

LINT: Stage = (Job("style", "ruff check ."), Job("format", "ruff format --check ."))


def ci() -> list[Stage]:
    """Return what every change has to pass."""
    differ = changed()
    small = "" if differ is None or any(file.startswith(RESNET) for file in differ) else " --small"
    tests = Job("tests", "python -m pytest -n 4 -m '' --share --durations=25")
    others = (Job("types", "mypy"), Job("verify", f"python -m reference verify{small}"))
    limits = f"--seconds {BUGS} --until {time.time() + BUGS_UNTIL:.0f}"
    # Those that are equally near to the change stand in an order that its tree decides, so each N-th is another one.
    bugs = Job("planted bugs", f"python -m tests.mutants --changed {limits} --control 100")
    return [LINT, (tests, *others), (bugs,)]


def nightly(seed: int, kept: Path) -> list[Stage]:
    """Return everything. ``seed``: of all generated examples and plans, and of the random order."""
    order = f"--random-order-bucket=module --random-order-seed={seed}"
    seeds = f"--hypothesis-profile=seeded --faults-seed={seed} --faults-keep {kept / 'failed'}"
    crashes = f"python -m tests.nemesis --restarts 3 --seconds 180 --seed {seed} --keep {kept / 'crashes'}"
    return [
        LINT,
        (Job("tests", f"python -m pytest -n 4 -m '' {seeds} --durations=40"), Job("types", "mypy")),
        (Job("verify", "python -m reference verify --long"),),
        (Job("planted bugs", "python -m tests.mutants"),),
        (Job("random order", f"python -m pytest -n 4 {order} {seeds}"),),
        (Job("engines", "python -m tox run -e engines"),),
        (Job("browser", "python -m tox run -e browser"),),
        (Job("docs", "python -m tox run -e docs"),),
        (Job("nemesis", f"python -m tests.nemesis --seconds 600 --seed {seed} --keep {kept / 'nemesis'}"),),
        (Job("crashes", crashes),),
        # Without the versions of this environment, which tox would hand on.
        (Job("lowest", "env -u PIP_CONSTRAINT python -m tox run -r -e lowest"),),
        (Job("latest", "env -u PIP_CONSTRAINT python -m tox run -r -e latest"),),
    ]


def weekly(seed: int) -> list[Stage]:
    """Return what measures the tests. ``seed``: of the sample.

    Each goes on where it was stopped, except the tests of the coverage, which count together with the earlier ones.
    """
    return [
        (Job("coverage", "python -m tests.coverage run -n 4 -m ''", HOUR),),
        (Job("rooms", "python -m tests.coverage rooms"),),
        (Job("sample", f"python -m tests.kills sample --seed {seed} --seconds {2 * HOUR}", 2.2 * HOUR),),
        (Job("score", "python -m tests.kills score"),),
    ]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.tiers", description=__doc__)
    parser.add_argument("tier", choices=("ci", "nightly", "weekly"))
    parser.add_argument("--continue", action="store_true", dest="go_on", help="leave out what passed on this commit")
    parser.add_argument("--seed", type=int, metavar="N", help="of nightly or weekly (default: the commit's own)")
    options = parser.parse_args(arguments)
    commit = git("rev-parse", "HEAD")
    if git("status", "--porcelain") and options.tier != "ci":
        parser.error(f"{options.tier} says which commit has passed: there are uncommitted changes")
    kept = KEPT / options.tier / (commit or "no-commit")[:12]
    seed = int((commit or "0")[:7], 16) if options.seed is None else options.seed
    tiers: dict[str, Callable[[], list[Stage]]]
    tiers = {"ci": ci, "nightly": partial(nightly, seed, kept), "weekly": partial(weekly, seed)}
    stages = tiers[options.tier]()
    begun, known = time.monotonic(), ended_well(kept) if options.go_on else {}
    interrupts.listen()
    try:
        ends = run(stages, kept, go_on=options.tier != "ci", known=known)
    except KeyboardInterrupt:
        print(f"interrupted; the output is in {kept}", file=sys.stderr)
        return interrupts.STATUS
    what = f"share {tree()[:12]}" if options.tier == "ci" else f"seed {seed}"
    minutes = (time.monotonic() - begun) / 60
    passed = report(f"{options.tier} of {(commit or 'no commit')[:12]}, {what}: {minutes:.1f} min", stages, ends)
    if passed and options.tier == "nightly" and commit:
        if git("rev-parse", "HEAD") != commit or git("status", "--porcelain"):
            print("error: the checkout was changed meanwhile, so no commit has passed", file=sys.stderr)
            return 1
        NIGHTLY.write_text(json.dumps({"commit": commit}) + "\n")
        print(f"{NIGHTLY.relative_to(ROOT)} names this commit now: commit it")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
