"""Which fields of a `Slow` go together: a rate, a latency, or both; jitter and reordering only with a latency."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# What a `Slow` can do to packets, of which it needs one.
_WAYS = ("kbit_per_second", "latency_ms")
# What netem does only to packets that it delays.
_OF_LATENCY = ("jitter_ms", "reorder_percent")


def refusal(kind: str, given: Mapping[str, Any]) -> str | None:
    """Say in one line why a fault of this kind cannot have these fields; None if it can."""
    if kind != "Slow":
        return None
    alone = [name for name in _OF_LATENCY if name in given and "latency_ms" not in given]
    if alone:
        return f"{kind}: {alone[0]!r} needs 'latency_ms', got {', '.join(given)}"
    if not any(name in given for name in _WAYS):
        return f"{kind} needs {' or '.join(map(repr, _WAYS))}, got {', '.join(given)}"
    latency, jitter = given.get("latency_ms"), given.get("jitter_ms")
    if latency is not None and jitter is not None and jitter > latency:
        return f"{kind}: 'jitter_ms' must be at most 'latency_ms', got {jitter!r} and {latency!r}"
    return None
