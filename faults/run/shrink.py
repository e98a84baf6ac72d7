"""Make a failing plan smaller: leave out one fault after another, as long as the run fails in the same way."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from faults.judge.facts import Facts
from faults.judge.rules import Judgement
from faults.ledger.record import Run
from faults.plan.plan import Plan
from faults.run.sweep import Runner


@dataclass(frozen=True)
class Trial:
    """One run of a shrink. ``alike``: whether it fails as the given plan did, after a fault; ``again``: whether the
    plan was run before."""

    plan: Plan
    judgement: Judgement
    seconds: float
    folder: Path
    alike: bool
    again: bool


class Shrinker:
    """Makes a plan smaller. Call `start`, then `shrink`, then `confirm`; what is known can be read at any time.

    ``run``: runs the program under a plan; ``budget``: seconds after which no run begins, None: no limit; ``tell``:
    called with each trial.

    Attributes:
        trials: all runs so far, in their order.
        smallest: the smallest plan's run that fails as the given plan did; None before it has been seen to fail.
        kept: the numbers of the given plan's faults that the smallest one has.
        minimal: whether each fault of the smallest plan is needed: without it, the run does not fail so.
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
        self.kept = tuple(range(len(plan.faults)))
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
        """Leave out faults until each is needed, or until the budget is spent."""
        while self._leave_out():
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

    def _leave_out(self) -> bool:
        """Go once through the faults, and leave out each without which the run fails so. Return whether there was one,
        because others may be needed no more then."""
        before = self.kept
        for number in before:
            kept = tuple(each for each in self.kept if each != number)
            plan = Plan(tuple(self.given.faults[each] for each in kept), self.given.seed)
            if not kept or any(trial.plan == plan for trial in self.trials):
                continue
            if self._spent():
                return False
            trial = self._try(plan)
            if trial.alike:
                self.smallest, self.kept = trial, kept
        self.minimal = self.kept == before
        return not self.minimal

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
        trial = Trial(plan, judgement, run.seconds, place, alike, again)
        self.trials.append(trial)
        self._tell(trial)
        return trial

    def _spent(self) -> bool:
        return self._budget is not None and time.monotonic() - self._begun >= self._budget


def may_be_of_plan(run: Run) -> bool:
    """Whether a fault has hit the run, so that its failure may come from the plan. A machine that is slow fails runs
    before any fault has. Of most messages no event tells."""
    return bool(run.plan.at("message")) or any(event is not None for event in Facts(run).effects.values())


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
