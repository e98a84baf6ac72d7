"""``python -m tests.nemesis``: random plans of up to four faults on tutorials and on foreign programs.

Each verdict is held against what may come of the kinds of fault that fired (`may_come`). Faults that an earlier one
made impossible are dropped, and the plan runs again. A run that ends otherwise is kept, and its plan shrunk. The seed
decides the plans and their order. Exit status 1: there was such a run; 2: no run was judged.

``--restarts K`` draws crashes alone, up to K, and starts a lost world of a tutorial again: every trace has to be right.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import hypothesis
from hypothesis import HealthCheck, Phase, settings

from faults.judge.bound import bound_of_timeout
from faults.judge.facts import Facts
from faults.judge.proof import firings, unseen
from faults.judge.rules import LOUD, Judgement
from faults.ledger.moments_seen import census, roles_of, steps_of
from faults.ledger.record import Run
from faults.plan import Fault, Plan, PlanError
from faults.plan.kinds import KINDS
from faults.run.runs import Subject, run
from faults.run.shrink import Shrinker
from faults.run.sweep import SweepFailed, healthy
from faults.run.tutorial import of_tutorial
from faults.strategies import faults
from reference import TUTORIALS
from reference.system import interrupts
from reference.verify import quick
from tests.programs.running import run_under
from tests.programs.verdicts import COMMANDS

ALL = list(HealthCheck)
PLACES = ("call", "message", "process")
DRAWN = tuple(dict.fromkeys(kind.name for kind in KINDS if kind.place in PLACES and not kind.asked))
# Those that lose nothing, so that no failure is needed (docs/verdicts.md), and take no longer than the programs wait.
# An `Order` ends a call that waits for longer than its own seconds.
GENTLE = frozenset({"Delay", "Pause", "Hold"})
SECONDS = (0.05, 0.3)
# How long a tutorial's roles wait for each other, and until a foreign program is ended (seconds).
TIMEOUT, DEADLINE = 3.0, 100.0
# This program waits for torch's default of a minute.
FOREIGN = tuple(f"{name}.py" for name in COMMANDS if name != "parameter_server")
NAMES = (*TUTORIALS, *FOREIGN)
# The examples that Hypothesis draws for a pool of faults of one kind, and the most plans of a program.
POOL, MOST = 40, 1000
# How often a plan runs again without the faults that did not fire.
AGAIN = 3


def may_come(faults: Sequence[Fault], *, foreign: bool) -> frozenset[str]:
    """Return the verdicts that a run may have in which these faults fired, and no others were planned.

    A tutorial is right, or fails loudly in time. What a foreign program makes of a loss is its own; but under gentle
    faults it does what it always does. Torch never executes a call twice, so what a program makes of that is its own,
    too, in whatever order. A lost message that frees an autograd context is sent again after a second, which may be
    after the program's end.
    """
    kinds = frozenset(fault.kind for fault in faults)
    if kinds <= GENTLE:
        return frozenset({"unchecked", "equal"} if foreign else {"equal"})
    if foreign:
        losses = {"failed loudly", "wrong", "hung", "leaked", "recovered", "equal", "unchecked"}
        twice = "Duplicate" in kinds and kinds <= GENTLE | {"Duplicate", "Order"}
        return frozenset(losses | ({"needless failure"} if twice else set()))
    found = {"equal", "failed loudly"} | ({"wrong", "needless failure"} if "Duplicate" in kinds else set())
    lost = {fault.message for fault in faults if fault.kind == "Drop"}
    return frozenset(found | ({"leaked"} if "CLEANUP_AUTOGRAD_CONTEXT_REQ" in lost else set()))


@dataclass(frozen=True)
class Target:
    """A program that the nemesis hurts. ``once``: runs it under a plan, in a folder; ``restarts``: of a lost world;
    ``places``: of the faults."""

    name: str
    once: Callable[[Plan, Path], tuple[Run, Judgement]]
    folder: Path
    foreign: bool
    restarts: int = 0
    places: Sequence[str] = PLACES

    @cached_property
    def healthy(self) -> Run:
        """The run without faults. Raises SweepFailed: it fails."""
        return healthy(self.once, self.name, self.folder / "healthy")

    def plans(self, seed: int) -> Iterator[Plan]:
        """Draw different plans of one to four faults of calls, messages and processes, each kind equally often."""
        chance = random.Random(f"{seed} {self.name}")
        kinds, most = (("Crash",), self.restarts) if self.restarts else (DRAWN, 4)
        pools = [pool for kind in kinds if (pool := self._faults(kind, chance.randrange(2**32)))]
        seen = set[Plan]()
        for _ in range(MOST):
            drawn = [chance.choice(chance.choice(pools)) for _ in range(chance.randint(1, most))]
            with suppress(PlanError):  # for instance two losses of one message
                plan = Plan(tuple(dict.fromkeys(drawn)))
                if plan not in seen:
                    seen.add(plan)
                    yield plan

    def _faults(self, kind: str, seed: int) -> list[Fault]:
        """Draw faults of one kind that this program can meet; none if there is no such fault."""
        found: dict[Fault, None] = {}
        timeline = self.healthy.timeline
        sites = {site: calls.callers for site, calls in census(timeline).items()}
        roles = roles_of(timeline)
        steps = min((max(steps_of(role, timeline), default=0) for role in roles), default=0)

        try:
            possible = faults(sites, roles, kinds=[kind], places=self.places, seconds=SECONDS, steps=steps)
        except ValueError:
            return []

        @hypothesis.seed(seed)
        @settings(phases=[Phase.generate], max_examples=POOL, database=None, deadline=None, suppress_health_check=ALL)
        @hypothesis.given(possible)
        def collect(fault: Fault) -> None:
            ends = not self.restarts or not (fault.every or fault.lives)  # not in each life
            if fault.chance_percent is None and ends:  # one that has a chance may well never fire
                found[fault] = None

        collect()
        return list(found)


def targets(folder: Path, names: Sequence[str], restarts: int = 0) -> list[Target]:
    """Return the tutorials and foreign programs of these names; all of them if there is none. Restarted are tutorials
    alone."""
    make: dict[str, Callable[[str, Path], Target]] = dict.fromkeys(TUTORIALS, partial(_tutorial, restarts=restarts))
    make |= dict.fromkeys(() if restarts else FOREIGN, _foreign)
    names = [name for name in names or make if name in make]
    return [make[name](name, folder / name) for name in NAMES if name in names]


def _tutorial(name: str, folder: Path, restarts: int) -> Target:
    subject = of_tutorial(quick(name, timeout=TIMEOUT))
    deadline = (2 + restarts) * bound_of_timeout(TIMEOUT) + 10
    once = partial(run_once, subject, deadline=deadline, restarts=restarts)
    # `rref_dataflow` counts what crosses TCP, and the agent that hurts messages has other transports.
    places = PLACES if name != "rref_dataflow" else tuple(place for place in PLACES if place != "message")
    return Target(name, once, folder, False, restarts, places)


def run_once(
    subject: Subject, plan: Plan, folder: Path, *, deadline: float, restarts: int = 0
) -> tuple[Run, Judgement]:
    """Run a world once, with ledgers even for an empty plan."""
    return run(subject, plan, folder, deadline=deadline, recorded=True, restarts=restarts)


def _foreign(name: str, folder: Path) -> Target:
    def once(plan: Plan, place: Path) -> tuple[Run, Judgement]:
        place.mkdir(parents=True, exist_ok=True)
        return run_under(name.removesuffix(".py"), str(plan), place, DEADLINE)

    return Target(name, once, folder, foreign=True)


@dataclass(frozen=True)
class Found:
    """What came of a plan. ``plan``: what is left of it without the faults that did not fire; ``wrong``: what may not
    come of it, empty if all is well; ``folder``: of the last run."""

    target: Target
    plan: Plan
    judgement: Judgement
    wrong: str
    folder: Path


def judged(target: Target, plan: Plan, folder: Path) -> Found | None:
    """Run a plan, again without what did not fire. Return what came of it; None if nothing of it fires."""
    for number in range(AGAIN):
        place = folder / str(number)
        found, judgement = target.once(plan, place)
        left = _fired(found)
        if judgement.verdict not in ("not fired", "unknown") or (
            judgement.verdict == "unknown" and left == plan.faults
        ):
            return Found(target, plan, judgement, _mistake(target, found, judgement), place)
        if not left or left == plan.faults:
            return None  # each of them may be impossible without the others
        plan = replace(plan, faults=left)
    return None


def _fired(found: Run) -> tuple[Fault, ...]:
    """Return the faults that fired. A message's has left evidence: of most messages no event tells."""
    calls, without = {event.details["fault"] for event in firings(found)}, unseen(found.plan, found.timeline)
    messages = set(found.plan.at("message")) - without.keys()
    return tuple(fault for number, fault in enumerate(found.plan.faults) if number in calls | messages)


def _mistake(target: Target, found: Run, judgement: Judgement) -> str:
    again = frozenset({"recovered", "equal"})  # a crash after the last role's value has lost nothing
    # A fault without a role crashes its callee for each caller. Who exits twice alike may be given up.
    if len(firings(found)) > target.restarts or _exited_twice(found):
        again |= {LOUD}
    may = again if target.restarts else may_come(found.plan.faults, foreign=target.foreign)
    if judgement.verdict in may:
        return ""
    kinds = {fault.kind for fault in found.plan.faults}
    return f"{judgement.verdict}, wanted {', '.join(sorted(may))} of {', '.join(sorted(kinds))}"


def _exited_twice(found: Run) -> bool:
    """Whether two lives of one role ended by themselves with the same status."""
    ends = [(life.role, life.end.text) for life in Facts(found).lives if life.end.kind == "Exited"]
    return len(ends) > len(set(ends))


def shrunk(found: Found, folder: Path, seconds: float) -> Plan:
    """Return the smallest plan that ends in the same way, or the given one if that does not fail again."""
    shrinker = Shrinker(found.target.once, found.plan, folder, budget=seconds)
    if shrinker.start().alike:
        shrinker.shrink()
    return found.plan if shrinker.smallest is None else shrinker.smallest.plan


def hunt(chosen: Sequence[Target], seed: int, seconds: float) -> Iterator[Found]:
    """Run plans on the targets in turn, in a random order, until the time is over, and yield what came of each.

    Raises:
        SweepFailed: a program fails without faults.
    """
    due, chance = time.monotonic() + seconds, random.Random(seed)
    drawn = [(target, target.plans(seed)) for target in chance.sample(chosen, len(chosen))]
    for number in range(MOST):
        for target, of_target in drawn:
            if time.monotonic() >= due:
                return
            plan = next(of_target, None)
            if plan is not None and (found := judged(target, plan, target.folder / f"{number:04d}")):
                yield found


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.nemesis", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these tutorials and programs (NAME.py)")
    parser.add_argument("--seconds", type=float, default=600.0, metavar="N", help="begin no run later (default: 600)")
    parser.add_argument("--seed", type=int, metavar="N", help="of plans and order (default: random)")
    parser.add_argument("--restarts", type=int, default=0, metavar="K", help="crashes alone, and restarts after them")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where wrong runs are kept (default: .nemesis)")
    options = parser.parse_args(arguments)
    if strange := [name for name in options.names if name not in NAMES]:
        parser.error(f"no target {strange[0]}, wanted some of {', '.join(NAMES)}")
    seed = random.SystemRandom().randrange(2**31) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    interrupts.listen()
    verdicts, wrong, begun = Counter[str](), 0, time.monotonic()
    with tempfile.TemporaryDirectory(prefix="nemesis-") as folder:
        chosen = targets(Path(folder), options.names, options.restarts)
        try:
            for found in hunt(chosen, seed, options.seconds):
                verdicts[found.judgement.verdict] += 1
                print(f"{found.judgement.verdict:<16} {found.target.name}: {found.plan}", flush=True)
                if found.wrong:
                    wrong += 1
                    _keep(found, (options.keep or Path(".nemesis")) / f"{seed}-{wrong}")
                else:
                    shutil.rmtree(found.folder.parent)
        except SweepFailed as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            return interrupts.STATUS
    seen = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
    print(f"seed {seed}: {verdicts.total()} runs in {time.monotonic() - begun:.0f} s: {seen}; {wrong} wrong")
    if not verdicts:
        return 2
    return 1 if wrong else 0


def _keep(found: Found, place: Path) -> None:
    """Keep the run, shrink its plan, and print both."""
    shutil.copytree(found.folder, place)
    print(f"WRONG: {found.wrong}\n{found.judgement}\nkept in {place}", flush=True)
    small = shrunk(found, found.folder.parent / "shrunk", seconds=120)
    (place / "plan.txt").write_text(f"{found.plan}\n{small}\n")
    print(f"smallest plan: {small}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
