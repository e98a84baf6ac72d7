"""Count the tests that ran under a plan, and fail a run in which a fault of ``--faults-plan`` fired in no test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from faults.plan.plan import Plan, PlanError
from faults.testing.plan_marks import wanted


class Tally:
    """A plugin of its own, because with ``-n`` the controller's instance counts the reports of all workers.

    ``plan``: the plan of --faults-plan.
    """

    def __init__(self, config: pytest.Config, plan: Plan | None) -> None:
        self._config, self._plan = config, plan
        self._have = 0  # the collected tests with a plan
        self._ran: set[str] = set()  # a set, because a test that is run again counts once
        self._fired: set[int] = set()
        self._without: Counter[str] = Counter()

    def pytest_report_collectionfinish(self, items: Sequence[pytest.Item]) -> list[str]:
        self._have = sum(_has_plan(item, self._config.option.faults_plan) for item in items)
        told = self._have or self._plan is not None
        return [f"faults: {self._have} of {_tests(len(items))} {_have(self._have)} a plan"] if told else []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        account: dict[str, Any] = getattr(report, "faults_plan", None) or {}
        if account.get("worked"):
            self._ran.add(report.nodeid)
            self._fired |= set(account["fired"])
        elif account.get("why"):
            self._without[account["why"]] += 1

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Fail a run if a fault of --faults-plan fired in no test."""
        if exitstatus == pytest.ExitCode.OK and self._unproven():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        of = "a plan" if self._plan is None else "the plan of --faults-plan"
        if self._ran or self._have or self._plan is not None:
            terminalreporter.write_sep("=", f"faults: {_tests(len(self._ran))} ran under {of}")
        for why, count in self._without.items():
            terminalreporter.write_line(f"faults: {_tests(count)} ran without it: {why}")
        if unproven := self._unproven():
            terminalreporter.section("faults: the plan was not carried out", sep="!", red=True, bold=True)
            terminalreporter.write_line(unproven, red=True)

    def _unproven(self) -> str:
        """Name the faults of the option's plan that fired in no test; empty if there is no option, or no test runs."""
        config = self._config
        nothing_runs = config.option.collectonly or config.getoption("setuponly", False)
        if self._plan is None or nothing_runs or hasattr(config, "workerinput"):
            return ""
        if not self._ran:
            return "no test ran under the plan of --faults-plan: wanted one that uses world, fresh_world or plan"
        never = [str(fault) for number, fault in enumerate(self._plan.faults) if number not in self._fired]
        return f"fired in no test: {'; '.join(never)}" if never else ""


def _has_plan(item: pytest.Item, option: str | None) -> bool:
    try:
        return wanted(item, option) is not None
    except PlanError:
        return True  # the test will fail by the same error


def _tests(count: int) -> str:
    return f"{count} test" if count == 1 else f"{count} tests"


def _have(count: int) -> str:
    return "has" if count == 1 else "have"
