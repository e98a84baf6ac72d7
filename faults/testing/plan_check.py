"""Fail a test whose plan was not used, or not all of whose faults fired, even if the test is expected to fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from faults.ledger.error_links import links_of
from faults.plan.plan import Plan, PlanError
from faults.testing.plan_marks import marks_of, wanted
from faults.testing.settings import RUNNING_TEST
from reference.outcome import Raised, RoleFailed


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


class Misuse(pytest.fail.Exception):  # type: ignore[name-defined, misc]
    """A test that asks for something impossible: an error even for a test that is expected to fail."""

    __module__ = "builtins"  # as pytest's own: its summary has only the name


@contextmanager
def one_line_of_plan() -> Iterator[None]:
    """Fail a test with an impossible plan, by the error's text alone."""
    try:
        yield
    except PlanError as error:
        raise Misuse(str(error), pytrace=False) from None


def expected(item: pytest.Item, error: Exception) -> bool:
    """Whether a link of the error's chain, or the error of the role that failed, is of a type that the marks expect.
    `RoleFailed` counts by this name alone: it is a RuntimeError, whatever its role did."""
    plan = item.stash[RUNNING_TEST].plan
    types: set[str] = set() if plan is None else {name.strip() for name in plan.asked.expect_error.split(",")} - {""}
    links = links_of(error) if types else ()
    found = {name for link in links for name in (link.types if link.name != "RoleFailed" else link.types[:1])}
    if isinstance(error, RoleFailed) and isinstance(error.outcome, Raised):
        found |= {error.outcome.type.rpartition(".")[2], *error.outcome.types}
    return not types.isdisjoint(found)


def check_plan(item: pytest.Item) -> None:
    """Fail a test whose plan was not used, or not all of whose faults fired."""
    if text := _unused(item):
        raise Misuse(text, pytrace=False)
    plan = item.stash[RUNNING_TEST].plan
    if plan is None or plan.imposed:
        return
    plan.settle()
    if text := plan.not_fired():
        pytest.fail(f"not fired: {text}", pytrace=False)


def _unused(item: pytest.Item) -> str:
    """Say why this test's own plan was not put to work; empty if it was, or the test has no own plan."""
    running = item.stash[RUNNING_TEST]
    if running.plan is None and not marks_of(item):
        return ""
    from faults.testing.active_plan import UNUSED

    if running.plan is None or not (running.plan.imposed or running.plan.worked()):
        return UNUSED
    return "" if marks_of(item) == running.marks else "a mark `plan` that came after the test's set-up does nothing"


def insist(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Fail a test that was expected to fail, if its plan was not used, or not all of its faults fired."""
    if not hasattr(report, "wasxfail"):
        return
    excinfo = call.excinfo
    if excinfo is None or not isinstance(excinfo.value, Misuse):
        excinfo = _complaint(item) if report.when == "call" else None
    if excinfo is not None:
        if call.excinfo is not None and str(call.excinfo.value) != str(excinfo.value):
            report.sections.append(("faults: the failure that was expected", report.longreprtext))
        del report.wasxfail
        report.outcome, report.longrepr = "failed", item.repr_failure(excinfo)


def _complaint(item: pytest.Item) -> pytest.ExceptionInfo[BaseException] | None:
    try:
        check_plan(item)
    except pytest.fail.Exception:
        return pytest.ExceptionInfo.from_current()
    return None
