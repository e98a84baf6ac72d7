"""Which fields of a `Slow` go together."""

from __future__ import annotations

import pytest

from faults.plan import Fault, PlanError


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ("", "Slow needs 'kbit_per_second' or 'latency_ms', got role"),
        ("at=up@a seconds=1", "Slow needs 'kbit_per_second' or 'latency_ms', got role, at, seconds"),
        ("jitter_ms=1", "Slow: 'jitter_ms' needs 'latency_ms', got role, jitter_ms"),
        (
            "kbit_per_second=9 reorder_percent=1",
            "Slow: 'reorder_percent' needs 'latency_ms', got role, kbit_per_second, reorder_percent",
        ),
        ("latency_ms=5 jitter_ms=5.5", "Slow: 'jitter_ms' must be at most 'latency_ms', got 5.5 and 5.0"),
        (
            "latency_ms=2000.001 jitter_ms=2000.002",
            "Slow: 'jitter_ms' must be a number above 0, at most 2000, got 2000.002",
        ),
        (
            "latency_ms=1000.0000001 jitter_ms=1000.0000002",
            "Slow: 'jitter_ms' must be at most 'latency_ms', got 1000.0000002 and 1000.0000001",
        ),
    ],
)
def test_fields_that_do_not_go_together_are_refused_in_one_line(fields: str, line: str) -> None:
    with pytest.raises(PlanError) as caught:
        Fault.parse(f"Slow role=a {fields}")
    assert str(caught.value) == line
