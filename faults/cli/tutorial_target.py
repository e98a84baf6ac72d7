"""A tutorial as the target of a command: its name and case are read, and it is run with its twin to judge it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from faults.cli.options import SCRIPT, Option, parser_of
from faults.judge.bound import MARGIN, bound_of_timeout, lasting
from faults.judge.rules import Judgement
from faults.ledger.record import Run
from faults.plan.plan import Plan
from faults.run.runs import Subject, check_roles, run
from faults.run.sweep import Runner, healthy
from faults.run.tutorial import of_tutorial
from reference.cli.options import BadInput, add_case_options, check_device, known
from reference.verify.verify import quick
from reference.world.start import LONGEST

# Seconds that a tutorial's roles wait for each other. Short, because most runs here lose a role or a message.
TIMEOUT = 3.0
WITH_CUDA = 30.0  # CUDA starts while others wait


class TutorialTarget:
    """A tutorial, or any other subject, with the options of its command."""

    def __init__(self, subject: Subject, options: Any) -> None:
        given = vars(options)
        self.subject, self.deadline, self.restarts = subject, given.get("deadline"), given.get("restarts", 0)
        trace, expected = given.get("leaks") == "trace", given.get("expect_error", ())
        self._run = partial(run, subject, recorded=True, trace=trace, expected=expected, restarts=self.restarts)

    @property
    def name(self) -> str:
        return self.subject.name

    def check(self, plan: Plan) -> None:
        check_roles(plan, self.subject.roles)

    def once(self, plan: Plan, place: Path) -> tuple[Run, Judgement]:
        return self._run(plan, place, deadline=self.deadline)

    def again(self, place: Path) -> tuple[Run, Runner]:
        """Run it without faults. A role that still runs after three times that run's seconds, the bound, and what a
        plan lasts, is killed, unless another deadline is given."""
        found = healthy(partial(self._run, deadline=self.deadline, expected=()), self.name, place / "healthy")
        due = (3 + self.restarts) * found.seconds + bound_of_timeout(self.subject.timeout) + MARGIN
        return found, partial(self._under, due)

    def _under(self, due: float, plan: Plan, place: Path) -> tuple[Run, Judgement]:
        until = min(due + lasting(plan), LONGEST) if self.deadline is None else self.deadline
        return self._run(plan, place, deadline=until)

    def turn(self, healthy: Run) -> float:
        return self.subject.timeout


def tutorial_of(
    command: str, about: str, arguments: Sequence[str], more: Sequence[Option]
) -> tuple[TutorialTarget, Any]:
    """Read the tutorial's name, the options of its case, and the command's own options (``more``)."""
    name = _name_of_tutorial(command, arguments)
    parser = parser_of(f"{command} {name}", f"{about} For a program of your own: `{command} --help --script`.", *more)
    own = {option.lstrip("-").replace("-", "_") for option, _ in more}
    add_case_options(parser, quick(name, timeout=TIMEOUT))
    options = vars(parser.parse_args(arguments[1:]))
    chosen = argparse.Namespace(**{key: options.pop(key) for key in own})
    given = {key: value for key, value in options.items() if value is not None}
    timeout = WITH_CUDA if given.get("device") == "cuda" else TIMEOUT
    case = quick(name, **{"timeout": timeout, **given})
    check_device(case)
    # What a command with this case's options would run, if they were left out.
    usual = quick(name, timeout=timeout, **{key: value for key, value in given.items() if key == "arithmetic"})
    return TutorialTarget(of_tutorial(case, usual), chosen), chosen


def _name_of_tutorial(command: str, arguments: Sequence[str]) -> str:
    """Return the tutorial that stands first. Raises BadInput: none does; SystemExit: ``--help`` was printed."""
    if arguments and arguments[0] in ("-h", "--help"):
        print(f"usage: python -m faults {command} NAME [options]; `{command} NAME --help` lists a tutorial's options")
        usage = f"{command} [options] {SCRIPT} my.py"
        print(f"       python -m faults {usage}; `{command} --help {SCRIPT}` lists those options")
        raise SystemExit(0)
    if not arguments or arguments[0].startswith("-"):
        raise BadInput(f"{command} what? wanted a tutorial's name first, got {' '.join(arguments) or 'nothing'}")
    if arguments[0].endswith(".py"):
        raise BadInput(
            f"{arguments[0]} is no tutorial: wanted `{command} ... {SCRIPT} {arguments[0]}` for a program of your own"
        )
    return known(arguments[0])
