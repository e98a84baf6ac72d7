"""Prepare a folder for a plan in the launching process, and the arguments of `world.launch` that put it to work."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from faults import hook
from faults.inject.network import network
from faults.judge.bound import lasting
from faults.ledger.run_files import renewed
from faults.plan.plan import Plan, PlanError
from reference.world import grace, start

start.also_preloaded.append(hook.__name__)  # `scope` makes every role import it


@contextmanager
def scope(
    plan: Plan,
    folder: str | os.PathLike[str],
    roles: Sequence[str] = (),
    *,
    record: bool = False,
    trace: bool = False,
    order: bool = False,
) -> Iterator[dict[str, Any]]:
    """Yield keyword arguments for ``launch(roles, **arguments)`` that put ``plan`` to work in that world.

    ``folder`` gets the plan and every role's ledger; files of an earlier run are removed. If the scope ends by an error
    before any role has begun, the folder is left as it was. A plan with faults of a network needs ``roles``; leaving
    the scope heals and removes that network. ``record``: write ledgers even for an empty plan;
    ``trace``: write to them what each role holds at the end (`faults.tracing`); ``order``: write to them when each call
    executes (`faults.run.replay`).

    Raises:
        PlanError: `renewed` refuses the folder.
        NetworkError: the plan has faults of a network, and this machine cannot make them.
    """
    with (
        renewed(plan, folder, trace=trace, order=order) as place,
        at_work(plan, place, roles, record=record) as arguments,
    ):
        yield arguments


@contextmanager
def at_work(plan: Plan, place: Path, roles: Sequence[str], *, record: bool) -> Iterator[dict[str, Any]]:
    """Yield the arguments of `scope` for a folder that has its plan already. Raises NetworkError."""
    with ExitStack() as stack:
        arguments: dict[str, Any] = {"before": partial(hook.install, place, record=record)}
        if lasting(plan):  # a role that a `Pause` stopped goes on later, so the launcher has to wait longer for it
            arguments["grace"] = min(grace.SECONDS + lasting(plan), start.LONGEST)
        if plan.at("network"):
            stack.enter_context(network.Network(roles, place, plan))
            arguments["options"] = network.Network.options
        yield arguments


def check_roles(plan: Plan, roles: Sequence[str]) -> None:
    """Refuse a plan that names a role which is not in ``roles``: its fault could never fire.

    Raises:
        PlanError: the plan names such a role.
    """
    for fault in plan.faults:
        named = [fault.role, *fault.callers, fault.moment.role if fault.moment else None]
        strange = [name for name in named if name is not None and name not in roles]
        if strange:
            raise PlanError(f"{fault}: no role {strange[0]}; wanted some of {', '.join(roles)}")


def prepared(plan: Plan, folder: str | os.PathLike[str], *, trace: bool = False, order: bool = False) -> Path:
    """Write the plan into the run's folder, and remove the files of an earlier run. Arguments and errors are those of
    `renewed`."""
    with renewed(plan, folder, trace=trace, order=order) as place:
        return place
