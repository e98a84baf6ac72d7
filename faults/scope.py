"""A plan's scope, in the launching process: its folder, and what `world.launch` is to be given."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from faults import hook, network
from faults.bounds import lasting
from faults.ledger import SUFFIX
from faults.plan import Plan, PlanError
from faults.record import RUN
from reference import grace, start
from reference.folders import make_private

start.also_preloaded.append(hook.__name__)  # what `scope` has every role import


@contextmanager
def scope(
    plan: Plan, folder: str | os.PathLike[str], roles: Sequence[str] = (), *, record: bool = False
) -> Iterator[dict[str, Any]]:
    """Keyword arguments for ``launch(roles, **arguments)`` that put ``plan`` to work in that world.

    ``folder`` gets the plan and every role's ledger, without what an earlier run left there. ``roles`` are needed
    where the plan has a network's faults; leaving the scope heals and removes that network.

    Raises:
        NetworkError: a network's faults are planned, and cannot be made here.
    """
    place = prepared(plan, folder)
    with ExitStack() as stack:
        arguments: dict[str, Any] = {"before": partial(hook.install, place, record=record)}
        if lasting(plan):  # a role that the plan has stopped goes on
            arguments["grace"] = grace.SECONDS + lasting(plan)
        if plan.at("network"):
            stack.enter_context(network.Network(roles, place))
            arguments["options"] = network.Network.options
        yield arguments


def check_roles(plan: Plan, roles: Sequence[str]) -> None:
    """Whether everybody that the plan names is one of ``roles``: else it could only be found not to have fired.

    Raises:
        PlanError: somebody is not.
    """
    for fault in plan.faults:
        named = [fault.role, *(fault.roles or ()), fault.moment.role if fault.moment else None]
        strange = [name for name in named if name is not None and name not in roles]
        if strange:
            raise PlanError(f"{fault}: no role {strange[0]}; wanted some of {', '.join(roles)}")


def prepared(plan: Plan, folder: str | os.PathLike[str]) -> Path:
    """The run's folder, with its plan and nothing of an earlier run.

    Raises:
        PlanError: it is a file; or it has ledgers but no plan: somebody else's, which are not to be removed.
        OSError: it cannot be made or written.
    """
    place = Path(folder).resolve()
    if place.is_file():
        raise PlanError(f"{place} is a file: wanted a folder for the run")
    make_private(place)
    stale = list(place.glob(f"*{SUFFIX}"))
    if stale and not (place / hook.PLAN).exists():
        raise PlanError(f"{place} has {stale[0].name} but no {hook.PLAN}: wanted an empty folder, or one of a run")
    for each in (*stale, *place.glob("*.term"), *place.glob("*.int"), *place.glob("+.*.status"), place / RUN):
        each.unlink(missing_ok=True)
    (place / hook.PLAN).write_text(plan.to_json() + "\n")
    return place
