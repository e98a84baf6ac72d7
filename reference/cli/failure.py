"""Say of a run that failed which roles failed by themselves, how, and what they said last."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from reference.outcome import Outcome, Overdue, Raised


def report_failure(name: str, failed: Mapping[str, Outcome], logs: Mapping[str, str]) -> None:
    """Every role that failed by itself: how, and what it said last."""
    print(f"{name} failed:", file=sys.stderr)
    for role, outcome in failed.items():
        print(f"  {role} {outcome}", file=sys.stderr)
    for role, outcome in failed.items():
        detail = {Raised: "traceback", Overdue: "stacks"}.get(type(outcome))
        text = getattr(outcome, detail) if detail else "\n".join(logs[role].splitlines()[-20:])
        if text.strip():
            print(f"--- {role}\n{text.rstrip()}", file=sys.stderr)
