"""Faults and plans as plain data. No torch."""

from faults.plan.plan import Fault, Plan, PlanError

__all__ = ["Fault", "Plan", "PlanError"]
