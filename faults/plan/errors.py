"""Refuse a plan in one line, which names the field, what was got and what was wanted."""

from __future__ import annotations

from reference.system.printable import VALUE as LONGEST
from reference.system.printable import OneLine, shown

__all__ = ["LONGEST", "PlanError", "shown"]


class PlanError(OneLine, ValueError):
    """A fault or plan that cannot be. One line that names the field: what was got, what was wanted."""
