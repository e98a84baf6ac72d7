"""What a command of ``python -m faults`` runs: its target, a tutorial or a program of the user's own."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from faults.cli.options import Option, only_theirs, parser_of, results_of, startable
from faults.judge.bound import turn_of
from faults.judge.rules import Judgement
from faults.ledger.record import Run
from faults.ledger.run_files import replaceable
from faults.plan.plan import Plan
from faults.run.sweep import Runner, SweepFailed, healthy
from faults.script.results import Results
from faults.script.script import check_network, run_script
from reference.cli.options import BadInput

if TYPE_CHECKING:
    from faults.cli.tutorial_target import TutorialTarget

# Each run of a program may take this many times as long as the healthy run, and at least so many seconds.
TIMES, SECONDS = 10.0, 60.0


Target: TypeAlias = "ScriptTarget | TutorialTarget"


def target_of(
    command: str,
    about: str,
    arguments: Sequence[str],
    program: list[str] | None,
    options: tuple[Sequence[Option], Sequence[Option]],
) -> tuple[Target, Any]:
    """Read a command line: its target, and the command's own options.

    ``about``: what the command does, with ``{}`` for its target; ``program``: the words after ``--script``, None for a
    tutorial; ``options``: those for a tutorial, and those for a program.
    """
    if program is None:
        from faults.cli.tutorial_target import tutorial_of  # here, because a program's commands need no torch

        return tutorial_of(command, about.format("a tutorial"), arguments, options[0])
    about = f"{about.format('a program of your own')} All words after --script are the program's command."
    parser = parser_of(f"{command} ... --script my.py", about, *options[1])
    given = parser.parse_args(arguments)
    return ScriptTarget(startable(only_theirs(program, options[1])), given), given


class ScriptTarget:
    """A program of the user's own. Raises BadInput: an option of its command has no effect without another one."""

    def __init__(self, command: Sequence[str], options: Any) -> None:
        given = vars(options)
        self.command, self.deadline, self.bound = command, options.deadline, given.get("bound")
        self.results = results_of(options) if "check" in given else Results()
        self.trace, self.expected = given.get("leaks") == "trace", given.get("expect_error", ())

    @property
    def name(self) -> str:
        return shlex.join(self.command)

    def check(self, plan: Plan) -> None:
        """Raise PlanError if a fault of the plan can never hit this target."""
        check_network(plan)

    def once(self, plan: Plan, place: Path) -> tuple[Run, Judgement]:
        """Run it, after a healthy run if results are checked: so a check is tried before it convicts.

        Raises:
            BadInput: a healthy run was asked for, and to compare it with one.
            SweepFailed: the healthy run fails, or the check does.
        """
        if self.results.compares and not plan.faults:
            raise BadInput("--same-output and --same-file compare with a healthy run: wanted --plan, got --healthy")
        results = self.results
        if plan.faults and results.wanted:
            with replaceable(place):  # otherwise nothing begins
                healthy(partial(self._run, results=results), self.name, place / "healthy")
            results = results.of(place / "healthy")
        return self._run(plan, place, results=results, expected=self.expected)

    def again(self, place: Path) -> tuple[Run, Runner]:
        """Run it without faults below ``place``; twice if its results are compared, because they have to be the same
        then. Return that run, and what then runs it under any plan.

        Raises:
            SweepFailed: it fails without faults, or its results differ from run to run.
        """
        found = healthy(partial(self._run, results=self.results), self.name, place / "healthy")
        results = self.results.of(place / "healthy")
        if results.compares:
            second, judgement = self._run(Plan(), place / "healthy-again", results=results)
            if judgement.verdict != "equal":
                why = second.difference if second.trace == "wrong" else judgement.verdict
                raise SweepFailed(f"two healthy runs of {self.name} differ: {why} (--ignore leaves out what changes)")
        patience = max(SECONDS, TIMES * found.seconds)
        own = f"{patience:.0f} s, or later if its own timeouts are longer"
        _tell(found, results, own if self.deadline is None else f"{self.deadline:g} s")
        return found, partial(self._run, expected=self.expected, patience=patience, results=results)

    def turn(self, healthy: Run) -> float:
        """Return the seconds that a call waits for its turn in an `Order`."""
        return turn_of(healthy.timeline)

    def _run(self, plan: Plan, place: Path, **how: Any) -> tuple[Run, Judgement]:
        own: dict[str, Any] = {"deadline": self.deadline, "bound": self.bound, "trace": self.trace}
        return run_script(self.command, plan, place, **own, **how)


def _tell(healthy: Run, results: Results, deadline: str) -> None:
    print(f"the healthy run took {healthy.seconds:.1f} s; a run is overdue after {deadline}", file=sys.stderr)
    if not results.wanted:
        wanted = "--check, --same-output or --same-file"
        print(f"no result is checked, so a run that ends with status 0 is unchecked: wanted {wanted}", file=sys.stderr)
