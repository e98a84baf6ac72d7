"""Read the plan of a run from ``plan.json`` in its folder, and what its ledgers are to record besides."""

from __future__ import annotations

import os
from pathlib import Path

from faults.plan.plan import Plan, PlanError
from reference.system.plain_file import content_of

PLAN = "plan.json"
# In a folder with this file the roles trace their RRefs and autograd contexts.
TRACE = ".faults-trace"
# In a folder with this file the roles record in which order calls execute.
ORDER = ".faults-order"


def read_plan(folder: str | os.PathLike[str]) -> Plan:
    """Read the plan of a run's folder. Raises PlanError: there is none, or it is not a plan."""
    path = Path(folder) / PLAN
    try:
        return Plan.from_json(content_of(path).decode())
    except OSError as error:
        raise PlanError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise PlanError(f"{path} cannot be read: it is not text") from error


def is_traced(folder: str | os.PathLike[str]) -> bool:
    """Whether the roles of a run's folder trace their RRefs and autograd contexts."""
    return (Path(folder) / TRACE).exists()


def is_ordered(folder: str | os.PathLike[str]) -> bool:
    """Whether the roles of a run's folder record in which order calls execute."""
    return (Path(folder) / ORDER).exists()
