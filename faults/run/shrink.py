"""Make a failing plan smaller, one run for each smaller plan, as long as the run fails in the same way."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from faults.judge.facts import Facts
from faults.judge.proof import firings, first_effects
from faults.judge.rules import Judgement
from faults.ledger.record import Run
from faults.plan.plan import Plan
from faults.plan.smaller import Hits, Smaller, smaller_plans
from faults.run.sweep import Runner


@dataclass(frozen=True)
class Trial:
    """One run of a shrink.

    ``hits``: which calls each fault hit; ``alike``: whether it fails as the given plan did, after a fault; ``again``:
    whether the plan was run before.
    """

    plan: Plan
    judgement: Judgement
    seconds: float
    folder: Path
    hits: Hits
    alike: bool
    again: bool


class Shrinker:
    """Makes a plan smaller. Call `start`, then `shrink`, then `confirm`; what is known can be read at any time.

    ``run``: runs the program under a plan; ``budget``: seconds after which no run begins, None: no limit; ``tell``:
    called with each trial.

    Attributes:
        trials: all runs so far, in their order.
        smallest: the smallest plan's run that fails as the given plan did; None before it has been seen to fail.
        origins: the numbers of the given plan's faults from which those of the smallest one come.
        minimal: whether every plan that is one step smaller than the smallest one was tried, and does not fail so.
    """

    def __init__(
        self,
        run: Runner,
        plan: Plan,
        folder: Path,
        *,
        budget: float | None = None,
        tell: Callable[[Trial], object] = lambda trial: None,
    ) -> None:
        self._run, self._folder, self._budget, self._tell = run, folder, budget, tell
        self.given = plan
        self.trials: list[Trial] = []
        self.smallest: Trial | None = None
        self.origins = tuple(range(len(plan.faults)))
        self.minimal = False
        self._begun = time.monotonic()
        self._raised: set[tuple[str, str]] = set()  # in the run of the given plan

    def start(self) -> Trial:
        """Run the given plan. Unless it fails, there is nothing to make smaller, and `smallest` stays None."""
        first = self._try(self.given)
        if first.alike:
            self.smallest = first
        return first

    def shrink(self) -> None:
        """Try smaller plans until none of them fails, or until the budget is spent."""
        while self._make_smaller():
            pass

    def confirm(self) -> None:
        """Run the smallest plan once more, unless the budget is spent."""
        if self.smallest is not None and not self._spent():
            self._try(self.smallest.plan)

    @property
    def failures(self) -> tuple[int, int]:
        """Return how often the smallest plan has failed so, and how often it was run."""
        plan = None if self.smallest is None else self.smallest.plan
        found = [trial.alike for trial in self.trials if trial.plan == plan]
        return sum(found), len(found)

    def _make_smaller(self) -> bool:
        """Go once through all steps, each as often as it helps. Return whether one has helped, so that others may."""
        helped, slot = False, (-1,)
        while (found := self._step(slot)) is not None:
            helped, slot = True, found.slot
        return helped

    def _step(self, since: tuple[object, ...]) -> Smaller | None:
        """Try the plans that are one step smaller, from this slot on, until one fails so. None: none does."""
        assert self.smallest is not None
        tried = {trial.plan for trial in self.trials}
        slow = self.smallest.judgement.verdict == "hung"  # then a run that does not fail is the quicker one
        for each in smaller_plans(self.smallest.plan, self.smallest.hits, alone_first=slow):
            if each.slot < since or each.plan in tried:
                continue
            if self._spent():
                return None
            tried.add(each.plan)
            trial = self._try(each.plan)
            if trial.alike:
                self.smallest, self.origins = trial, tuple(self.origins[number] for number in each.kept)
                return each
        self.minimal = since == (-1,)
        return None

    def _try(self, plan: Plan) -> Trial:
        place = self._folder / f"{len(self.trials):04d}"
        run, judgement = self._run(plan, place)
        first = self.trials[0].judgement if self.trials else judgement
        again = any(trial.plan == plan for trial in self.trials)
        raised = errors_of(run)
        if not self.trials:
            self._raised = raised
        alike = fails_alike(first, judgement) and may_be_of_plan(run)
        if alike and _by_errors(first, judgement):
            alike = bool(raised & self._raised) or not self._raised
        trial = Trial(plan, judgement, run.seconds, place, hits_of(run), alike, again)
        self.trials.append(trial)
        self._tell(trial)
        return trial

    def _spent(self) -> bool:
        return self._budget is not None and time.monotonic() - self._begun >= self._budget


def hits_of(run: Run) -> Hits:
    """Return which calls each fault hit."""
    found: dict[int, list[tuple[str, int]]] = {}
    for event in firings(run):
        if "caller" in event.details and "nth" in event.details:
            found.setdefault(event.details["fault"], []).append((event.details["caller"], event.details["nth"]))
    return found


def may_be_of_plan(run: Run) -> bool:
    """Whether a fault has hit the run, so that its failure may come from the plan. A machine that is slow fails runs
    before any fault has. Of most messages no event tells."""
    return bool(run.plan.at("message")) or any(event is not None for event in first_effects(run).values())


def fails_alike(first: Judgement, other: Judgement) -> bool:
    """Whether both have one defect of the program: the same verdict, by a check that failed in both.

    A fault that did not fire is a defect of the plan, so it does not count.
    """
    return first.verdict != "not fired" and not _defects(first).isdisjoint(_defects(other))


def errors_of(run: Run) -> set[tuple[str, str]]:
    """Return which role ended by which type of exception."""
    return {(each.role, each.end.types[0]) for each in Facts(run).failures if each.end.types}


def _by_errors(first: Judgement, other: Judgement) -> bool:
    """Whether the errors of roles are all that both have in common. Other defects do not depend on them."""
    return _defects(first) & _defects(other) == {("wrong", "errors")}


def _defects(judgement: Judgement) -> set[tuple[str, str]]:
    """Return the verdict with each check that has led to it; nothing if the run did not fail."""
    failed = [each for each in judgement.checks if each.holds is False]
    return {(judgement.verdict, each.name) for each in failed if each.verdict == judgement.verdict}
