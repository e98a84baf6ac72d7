"""Fail a test whose plan did nothing, or not all that it says, even if a failure of the test is expected."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from faults.plan.plan import PlanError
from faults.testing.plan_marks import marks_of
from faults.testing.settings import RUNNING_TEST


class Misuse(pytest.fail.Exception):  # type: ignore[name-defined, misc]
    """A test that asks for what cannot be: an error also of one that is expected to fail."""

    __module__ = "builtins"  # as pytest's own: its summary has only the name


@contextmanager
def one_line_of_plan() -> Iterator[None]:
    """A plan that cannot be fails its test with the error's text alone."""
    try:
        yield
    except PlanError as error:
        raise Misuse(str(error), pytrace=False) from None


def check_plan(item: pytest.Item) -> None:
    """Fail a test whose plan did nothing, or not all that it says."""
    if text := _unused(item):
        raise Misuse(text, pytrace=False)
    if text := _not_fired(item):
        pytest.fail(text, pytrace=False)


def _not_fired(item: pytest.Item) -> str:
    """Which faults that this test has asked for never happened; empty if all did, or none is asked for."""
    plan = item.stash[RUNNING_TEST].plan
    text = "" if plan is None or plan.guest else plan.not_fired()
    return text and f"not fired: {text}"


def _unused(item: pytest.Item) -> str:
    """Why the plan that this test has asked for was not put to work; empty if it was, or none is asked for."""
    scene = item.stash[RUNNING_TEST]
    if scene.plan is None and not marks_of(item):
        return ""
    from faults.testing.active_plan import UNUSED

    if scene.plan is None or not (scene.plan.guest or scene.plan.worked()):
        return UNUSED
    return "" if marks_of(item) == scene.marks else "a mark `plan` that came after the test's set-up does nothing"


def insist(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """A failure that is expected of a test does not excuse a plan that does nothing, or not all that it says."""
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
