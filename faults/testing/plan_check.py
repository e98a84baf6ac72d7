"""Fail a test whose plan was not used, or not all of whose faults fired, even if the test is expected to fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from faults.ledger.error_links import links_of
from faults.plan.plan import PlanError
from faults.testing.plan_marks import marks_of, wanted
from faults.testing.settings import RUNNING_TEST
from reference.outcome import Raised, RoleFailed


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
    """Whether a link of the error's chain, or the error of the role that failed, is of a type that the marks expect."""
    types = _expected_types(item)
    found = {name for link in links_of(error) for name in link.types} if types else set()
    if isinstance(error, RoleFailed) and isinstance(error.outcome, Raised):
        found.add(error.outcome.type.rpartition(".")[2])
    return not types.isdisjoint(found)


def _expected_types(item: pytest.Item) -> set[str]:
    running = item.stash[RUNNING_TEST]
    asked = None if running.plan is None else wanted(item, item.config.option.faults_plan)
    names = "" if asked is None else asked.expect_error
    return {name.strip() for name in names.split(",")} - {""}


def check_plan(item: pytest.Item) -> None:
    """Fail a test whose plan was not used, or not all of whose faults fired."""
    if text := _unused(item):
        raise Misuse(text, pytrace=False)
    if text := _not_fired(item):
        pytest.fail(text, pytrace=False)


def _not_fired(item: pytest.Item) -> str:
    """Name the faults of this test's own plan that did not fire; empty if all did, or it has no own plan."""
    plan = item.stash[RUNNING_TEST].plan
    text = "" if plan is None or plan.imposed else plan.not_fired()
    return text and f"not fired: {text}"


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
        del report.wasxfail
        report.outcome, report.longrepr = "failed", item.repr_failure(excinfo)


def _complaint(item: pytest.Item) -> pytest.ExceptionInfo[BaseException] | None:
    try:
        check_plan(item)
    except pytest.fail.Exception:
        return pytest.ExceptionInfo.from_current()
    return None
