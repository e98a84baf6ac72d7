"""Join the plan of a test from its marks ``plan`` and the option ``--faults-plan``. Imports no torch."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from faults.plan.places import shown
from faults.plan.plan import Plan, PlanError

# The plan of the option applies to a test that uses one of these fixtures.
FIXTURES = {"world", "fresh_world", "plan"}
OPTIONS: dict[str, Any] = {"unseen": False, "activate": True, "expect_error": ""}


@dataclass(frozen=True)
class Wanted:
    """The plan of one test. ``unseen``: the test itself proves the faults of messages that no call can show;
    ``expect_error``: the types of the errors by which the test may end, with commas; ``imposed``: only the option asks
    for the plan, so the test may have no world for it, or no call that its faults can hit."""

    plan: Plan
    unseen: bool = False
    activate: bool = True
    expect_error: str = ""
    imposed: bool = False


def wanted(item: pytest.Item, option: str | None) -> Wanted | None:
    """Return the plan of a test. ``option``: the text of --faults-plan, which replaces the plans of the marks.

    Raises:
        PlanError: marks that are no plan, have no fault or contradict each other, even if the option replaces them.
    """
    marks = marks_of(item)
    options = _agreed(marks)
    own = joined([mark.args for mark in marks]) if marks else None
    fixtures = set(getattr(item, "fixturenames", ()))
    if option is not None and (marks or fixtures & FIXTURES):
        plan = with_faults(option)
        # `unseen` holds only for the messages of the test's own plan: the test does not prove the loss of others.
        strange = own is None or not set(plan.at("message").values()) <= set(own.faults)
        options["unseen"] = options["unseen"] and not strange
        return Wanted(plan, **options, imposed=not marks and "plan" not in fixtures)
    return None if own is None else Wanted(own, **options)


def of_option(value: str | Sequence[str] | None) -> Plan | None:
    """Join all options --faults-plan of a run. In a process of xdist they are one text, which is joined already."""
    return None if value is None else joined([[value] if isinstance(value, str) else value])


def marks_of(item: pytest.Item) -> list[pytest.Mark]:
    """Return the marks ``plan`` of a test: its module's, its class's, its own, and those of its parameters."""
    return [mark for node in item.listchain() for mark in node.own_markers if mark.name == "plan"]


def check_world(item: pytest.Item) -> None:
    """Refuse a mark ``world`` that the fixture does not read.

    Raises:
        PlanError: it belongs to a test or a class.
    """
    nodes = item.listchain() if "world" in getattr(item, "fixturenames", ()) else []
    own = [node for node in nodes if isinstance(node, pytest.Class | pytest.Item)]
    if any(mark.name == "world" for node in own for mark in node.own_markers):
        wanted = 'wanted `pytestmark = pytest.mark.world("a", "b")` or an indirect parameter'
        raise PlanError(f"the mark world of one test has no effect, because a module has one world: {wanted}")


def joined(groups: Sequence[Collection[object]]) -> Plan:
    """Join the texts of several marks into one plan, in their order. A seed of 0 is none. Raises PlanError."""
    if not all(groups):
        raise PlanError('no plan: wanted `@pytest.mark.plan("...")`, got a mark without a text')
    plans = [with_faults(text) for group in groups for text in group]
    seeds = list(dict.fromkeys(plan.seed for plan in plans if plan.seed))
    if len(seeds) > 1:
        raise PlanError(f"the plans of one test are joined: wanted one seed, got {' and '.join(map(str, seeds))}")
    return Plan(tuple(fault for plan in plans for fault in plan.faults), seeds[0] if seeds else 0)


def with_faults(text: object) -> Plan:
    """Read the plan of one text. Raises PlanError: it is no plan, or has no fault."""
    if not isinstance(text, str):
        raise PlanError(f'no plan: wanted `@pytest.mark.plan("...")` or --faults-plan TEXT, got {shown(text)}')
    plan = Plan.parse(text)
    if not plan.faults:
        raise PlanError(f"a plan without a fault does nothing: wanted at least one fault, got {shown(text)}")
    return plan


def _agreed(marks: Sequence[pytest.Mark]) -> dict[str, Any]:
    """Return the options of the marks. Raises PlanError: an unknown option, or two marks that differ in one."""
    for mark in marks:
        if unknown := mark.kwargs.keys() - OPTIONS:
            raise PlanError(f"the mark plan takes {', '.join(OPTIONS)}, got {', '.join(sorted(unknown))}")
    found = dict(OPTIONS)
    for name, default in OPTIONS.items():
        values: list[Any] = []
        for value in (mark.kwargs[name] for mark in marks if name in mark.kwargs):
            if not isinstance(value, type(default)):
                form = "True or False" if isinstance(default, bool) else "a text"
                raise PlanError(f"the mark plan: {name} must be {form}, got {value!r}")
            values += [value] if value not in values else []
        if len(values) > 1:
            raise PlanError(f"the plans of one test are joined: wanted one {name}, got {values[0]} and {values[1]}")
        found[name] = values[0] if values else default
    return found
