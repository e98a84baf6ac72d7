"""The fields of faults: one table of shapes, one of meanings, and the manual that shows both."""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields as dataclass_fields

import pytest

from faults.plan import Fault, Plan, PlanError
from faults.plan.fields import FIELDS, check_value
from faults.plan.kinds import KINDS, Kind
from tests.project.fault_tables import ROOT, fields_table, shapes_table


def manual() -> str:
    return (ROOT / "docs" / "plans.md").read_text()


def test_the_tables_agree_with_the_fault() -> None:
    assert {name for kind in KINDS for name in kind.fields} == set(FIELDS)
    assert list(FIELDS) == [item.name for item in dataclass_fields(Fault) if item.name != "kind"]
    assert len({(kind.name, kind.place) for kind in KINDS}) == len(KINDS)
    for kind in KINDS:
        assert len(set(kind.fields)) == len(kind.fields)
        assert all(kind.words_of(name) for name in kind.words)


@pytest.mark.parametrize("table", [shapes_table, fields_table], ids=lambda each: each.__name__)
def test_the_manual_shows_the_tables(table: Callable[[], str]) -> None:
    """Paste the output of `python -m tests.project.fault_tables`."""
    assert table() in manual()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.name}-{kind.place}")
def test_every_kind_stands_on_the_page_of_its_place(kind: Kind) -> None:
    page = {"call": "calls", "message": "messages", "process": "processes", "network": "networks"}[kind.place]
    for name in ("faults", page):
        assert kind.name in (ROOT / "docs" / f"{name}.md").read_text(), name


@pytest.mark.parametrize(
    ("name", "high"),
    [
        *{"nth": 10**9, "times": 10**6, "kbit_per_second": 10**8, "seconds": 1e6, "latency_ms": 1e5}.items(),
        *{"jitter_ms": 2e3, "percent": 100.0, "chance_percent": 100.0, "reorder_percent": 50.0}.items(),
    ],
)
def test_the_limits_of_a_number_are_allowed(name: str, high: float) -> None:
    low, step = (1, 1) if isinstance(high, int) else (5e-324, 0.001)
    assert check_value("Kind", name, low) == low
    assert check_value("Kind", name, high) == high
    for beyond in (low - step, high + step):
        with pytest.raises(PlanError):
            check_value("Kind", name, beyond)


@pytest.mark.parametrize(
    "site",
    ["a:b", "a.b.c:D.e", "_a:_b", "a:f.<locals>.g", "a:f.<locals>.<lambda>", "é.ü:λ", "__main__:pay", "a1:b2"],
)
def test_a_site_is_a_module_and_a_qualified_name(site: str) -> None:
    assert check_value("Kind", "site", site) == site
    assert check_value("Kind", "at", f"call:{site}#2@ps") == f"call:{site}#2@ps"


def test_an_error_is_an_exception_made_from_a_text() -> None:
    accepted = set[str]()
    for name in dir(builtins):
        with suppress(PlanError):
            check_value("Raise", "error", name)
            accepted.add(name)
    for name in accepted:
        made = getattr(builtins, name)("some words")
        assert isinstance(made, Exception)
        assert "some words" in str(made)
    assert {"ValueError", "KeyError", "RuntimeError", "OSError", "TimeoutError", "ConnectionResetError"} <= accepted


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ("", "Slow needs 'kbit_per_second' or 'latency_ms', got role"),
        ("jitter_ms=1", "Slow: 'jitter_ms' needs 'latency_ms', got role, jitter_ms"),
        (
            "kbit_per_second=9 reorder_percent=1",
            "Slow: 'reorder_percent' needs 'latency_ms', got role, kbit_per_second, reorder_percent",
        ),
        (
            "latency_ms=1000.0000001 jitter_ms=1000.0000002",
            "Slow: 'jitter_ms' must be at most 'latency_ms', got 1000.0000002 and 1000.0000001",
        ),
        ("latency_ms=5 jitter_ms=5.5", "Slow: 'jitter_ms' must be at most 'latency_ms', got 5.5 and 5.0"),
    ],
)
def test_fields_that_do_not_go_together_are_refused_in_one_line(fields: str, line: str) -> None:
    with pytest.raises(PlanError) as caught:
        Fault.parse(f"Slow role=a {fields}")
    assert str(caught.value) == line


def test_the_examples_of_the_manual_are_one_plan() -> None:
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", manual(), re.MULTILINE | re.DOTALL)
    found = [Plan.parse(block) for kind, block in blocks if not kind and re.match(r"seed=|\{", block)]
    assert len(found) == 2
    assert found[0] == found[1]
    assert [fault.kind for fault in found[0].faults] == ["Delay", "Crash"]


def test_the_python_of_the_manual_runs() -> None:
    (block,) = re.findall(r"^```python\n(from faults.plan.*?)^```$", manual(), re.MULTILINE | re.DOTALL)
    exec(compile(block, "manual", "exec"), {})
