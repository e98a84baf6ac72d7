"""The state of one running test: its plan, its worlds, its folder, and what a failure prints of them."""

from __future__ import annotations

import itertools
import os
import re
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from reference.system.temporary_folders import PRIVATE, make_private
from reference.system.text import one_line, printable

if TYPE_CHECKING:  # they import torch, and a test without worlds needs none
    from faults.testing.active_plan import ActivePlan
    from faults.testing.idle_world import Idle
    from reference.world.world import World

# How many lines of the timeline and of each log are printed.
LINES = 30


@dataclass
class RunningTest:
    """The state of one test. ``keep``: the copy of its folder after a failure; ``page``: its page; ``name``: the test.
    ``marks``: the marks of its plan; ``called``: its function has ended; ``part_failed``: a subtest failed.

    ``isolated``: the argument of `launch` if the test does not give one. ``trace``: the roles of its fresh worlds trace
    their RRefs and autograd contexts.
    """

    plan: ActivePlan | None = None
    marks: list[pytest.Mark] = field(default_factory=list)
    folder: Path | None = None
    idles: list[Idle] = field(default_factory=list)
    worlds: list[World] = field(default_factory=list)
    kept: list[tuple[str, str]] = field(default_factory=list)  # kind and text
    called: bool = False
    part_failed: bool = False
    failed: bool = False
    keep: Path | None = None
    page: Path | None = None
    name: str = ""
    isolated: bool = False
    trace: bool = False

    def launch(self, roles: Any, *, healthy: bool = False, **arguments: Any) -> World:
        """Launch a world for the fixture ``fresh_world``, under the test's plan if it has one.

        ``healthy``: launch without the plan. Raises as `launch` and `ActivePlan.arguments` do.
        """
        from faults.testing import rref_leaks
        from faults.testing.active_plan import merge_launch_arguments
        from reference.world.launcher import launch

        assert self.folder is not None
        number = len(self.worlds)
        arguments.setdefault("isolated", self.isolated)
        if arguments.get("folder") is None:
            arguments["folder"] = self.folder / f"world{number + 1}" if number else self.folder
        # This `before` comes first, so that the plan's ledger counts what is left before this one collects garbage.
        before = partial(rref_leaks.record_counts, str(arguments["folder"]), self.trace)
        arguments = merge_launch_arguments(arguments, {"before": before})
        if self.plan is not None and not healthy:
            arguments = merge_launch_arguments(arguments, self.plan.offered(roles))
        self.worlds.append(launch(roles, **arguments))
        return self.worlds[-1]

    def close(self, besides: Collection[str]) -> None:
        """End the fresh worlds, and note what their roles keep. The kinds ``besides`` are not waited for."""
        from faults.testing.rref_leaks import at_end

        with ExitStack() as stack:
            for world in self.worlds:
                stack.callback(world.close)
            for world in self.worlds:
                self.kept += at_end(world, self.trace, besides)

    def sections(self, *, over: bool = False) -> Iterator[tuple[str, str]]:
        """Yield title and text of each section in a failing test's report.

        If a role is busy or was overdue, all roles of its world are ended, to print their stacks. ``over``: the
        teardown has ended the worlds, so their outcomes say nothing about the failure.
        """
        stacks = [] if over else [section for name, world in self._worlds() for section in _stacks(name, world)]
        if self.plan is not None:
            from faults.testing.active_plan import UNUSED

            yield "faults: plan", str(self.plan)
            if text := self.plan.not_fired():
                yield "faults: not fired", text if self.plan.worked() else UNUSED
            yield _last("faults: timeline", "events", str(self.plan.timeline()).splitlines())
        for name, world in self._worlds():
            for role, text in (world.logs() if world in self.idles else _logs(world)).items():
                yield _last(f"faults: log of {name}{role}", "lines", text.splitlines())
        yield from stacks

    def save(self) -> None:
        """Copy the folder, and the logs of idle worlds, to ``keep``, and write the page."""
        if self.page is not None and self.plan is not None:
            _write_page(self.page, self.plan, self.name)
        if self.keep is None:
            return
        if self.folder is not None:
            shutil.copytree(self.folder, self.keep, dirs_exist_ok=True)
        for number, idle in enumerate(self.idles, 1):
            place = self.keep / (f"idle{number}" if number > 1 else "idle")
            place.mkdir(mode=PRIVATE)
            for role, text in idle.logs().items():
                (place / f"{role}.log").write_text(text, encoding="utf-8")

    def _worlds(self) -> list[tuple[str, Any]]:
        """Return the worlds, each with a prefix for its roles' names; the first world's is empty."""
        found = [*self.idles, *self.worlds]
        return [(f"world {number}, " if number > 1 else "", world) for number, world in enumerate(found, 1)]


def _write_page(path: Path, plan: ActivePlan, name: str) -> None:
    from faults.judge.facts import Facts
    from faults.judge.rules import judge
    from faults.report.page import page

    run = replace(plan.run(), name=name)
    text = page(Facts(run), judge(run), plan.folder, said=("failed", "This test failed."))
    path.write_text(text, encoding="utf-8")


def _logs(world: World) -> dict[str, str]:
    return {role: world.log(role) for role in world.pids}


def _stacks(name: str, world: Any) -> Iterator[tuple[str, str]]:
    from reference.outcome import Overdue

    overdue = any(isinstance(outcome, Overdue) for outcome in world.outcomes.values())
    outcomes = world.expire() if world.busy or overdue else world.outcomes
    for role, outcome in outcomes.items():
        if isinstance(outcome, Overdue):
            yield f"faults: stacks of {name}{role}", outcome.stacks
        else:
            yield f"faults: end of {name}{role}", str(outcome)


def _last(title: str, what: str, lines: Sequence[str]) -> tuple[str, str]:
    text = "\n".join(lines[-LINES:]) or "(empty)"
    return (f"{title}, the last {LINES} of {len(lines)} {what}" if len(lines) > LINES else title), text


def place_for(folder: str | os.PathLike[str], test: str) -> Path:
    """Make a new folder for this test in ``folder``. Raises OSError: it cannot be made."""
    name = os.fsencode(re.sub(r"[^\w.-]+", "_", test))[-150:].decode(errors="ignore")  # 255 bytes are the most
    make_private(Path(folder))
    for number in itertools.count(1):
        place = Path(folder) / (name if number == 1 else f"{name}-{number}")
        with suppress(FileExistsError):  # made by an earlier run, or by another one at the same time
            place.mkdir(mode=PRIVATE)
            return place
    raise AssertionError("unreachable")


def tell(item: pytest.Item, running: RunningTest, report: pytest.TestReport) -> None:
    """Add the sections of a failing test to its report, and the folder in which its files are kept."""
    over = report.when == "teardown"
    report.sections += running.sections(over=over)
    given, running.name = item.config.option, item.nodeid
    try:
        if given.faults_keep:
            running.keep = place_for(given.faults_keep, item.nodeid)
            report.sections.append(("faults: kept", printable(str(running.keep))))
        if given.faults_report and running.plan is not None:  # without a plan there are no ledgers
            running.page = place_for(given.faults_report, item.nodeid) / "report.html"
            report.sections.append(("faults: page", printable(str(running.page))))
        if over:
            running.save()  # otherwise when its worlds have ended
    except OSError as error:
        running.keep = running.page = None
        report.sections.append(("faults: kept", one_line(f"nothing: {error}")))
