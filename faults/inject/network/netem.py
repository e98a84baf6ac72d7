"""Try netem, which delays packets. It is a part of the kernel that not every kernel has (the module sch_netem)."""

from __future__ import annotations

from faults.inject.network import shaping
from faults.inject.network.hosts import Hosts, NetworkError
from faults.plan.plan import Fault, Plan


def needed(plan: Plan) -> bool:
    """Whether a fault of this plan delays packets."""
    return any(fault.latency_ms is not None for fault in plan.faults)


def try_out(hosts: Hosts, role: str) -> None:
    """Delay the packets of a role that sends none yet, and stop that again.

    Raises:
        NetworkError: this kernel has no netem, or tc cannot use it; with tc's own words.
    """
    try:
        for command in shaping.put(Fault(kind="Slow", role=role, latency_ms=1.0)):
            hosts.run(role, command)
    except NetworkError as error:
        raise NetworkError(f"'latency_ms' needs netem, the kernel's module sch_netem, got {error}") from error
    hosts.run(role, shaping.LIFT)
