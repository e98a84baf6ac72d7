"""Print which roles of a failed run failed by themselves, how they ended, and their last output."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from reference.outcome import Outcome, Overdue, Raised, end_of


def report_failure(name: str, failed: Mapping[str, Outcome], logs: Mapping[str, str]) -> None:
    """Print how each role that failed by itself ended, then its traceback, its stacks or the end of its log."""
    print(f"{name} failed:", file=sys.stderr)
    for role, outcome in failed.items():
        print(f"  {role} {outcome}", file=sys.stderr)
    for role, outcome in failed.items():
        detail = {Raised: "traceback", Overdue: "stacks"}.get(type(outcome))
        text = getattr(outcome, detail) if detail else end_of(logs[role])
        if text.strip():
            print(f"--- {role}\n{text.rstrip()}", file=sys.stderr)
