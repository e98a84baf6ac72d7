"""Refuse a plan in one line that names the field, what was got and what was wanted."""

from __future__ import annotations

from reference.system.printable import VALUE as LONGEST
from reference.system.printable import OneLine, shown

__all__ = ["LONGEST", "PlanError", "shown"]


class PlanError(OneLine, ValueError):
    """An impossible fault or plan. One line that names the field: what was got, what was wanted."""
