"""Play one role as one rank of torchrun: no launcher of ours, and no world."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import torch.distributed.rpc as rpc

from reference.outcome import WorldError
from reference.system.printable import shown
from reference.world import shutdown_barrier
from reference.world.network_interface import listen_towards
from reference.world.role import prepare_process
from reference.world.rpc_agent import chosen_options, listen_on_loopback, start_agent
from reference.world.start import check
from reference.world.world import Function


def run_rank(
    roles: Mapping[str, Function],
    *,
    deadline: float = 3600,
    before: Callable[[str], object] | None = None,
    backend: str | None = None,
    options: Mapping[str, Any] | None = None,
    threads: int = 1,
) -> tuple[str, object]:
    """Play, in this process, the role of its own rank, as started by ``torchrun``: (role, what it returned).

    Reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Roles take ranks in their order. If LOCAL_WORLD_SIZE says
    that all are on one machine, RPC and gloo listen on loopback only; else on the interface towards MASTER_ADDR
    only, unless TP_SOCKET_IFNAME and GLOO_SOCKET_IFNAME say another (torchrun's own store is torchrun's affair).
    torchrun ends the other ranks of a machine when one dies; those of other machines see it themselves.

    Raises:
        WorldError: not under torchrun, or another number of processes than of roles.
        PeerLost: another rank ended before its role's function had returned; or not all did within ``deadline``
            seconds of this one.
        RuntimeError: the shutdown took longer than ``deadline`` seconds.
    """
    rank, size = _rank_and_size()
    names = list(roles)
    check(names, deadline, threads, options)
    if size != len(names):
        raise WorldError(f"torchrun started {size} processes, wanted {len(names)}: {', '.join(names)}")
    name = names[rank]
    if os.environ.get("LOCAL_WORLD_SIZE") == os.environ["WORLD_SIZE"]:
        listen_on_loopback()
    else:
        listen_towards(os.environ["MASTER_ADDR"])
    prepare_process(name, threads)
    shutdown_barrier.prepare(names)
    if before is not None:
        before(name)
    start_agent(name, rank, size, "env://", backend, chosen_options(roles, name, backend, options))
    with shutdown_barrier.wait_for_all_ranks(name, names, deadline):
        value = roles[name]()
    rpc.shutdown(timeout=deadline)
    return name, value


def _rank_and_size() -> tuple[int, int]:
    """What torchrun says of this process. Raises WorldError: it has not started it, or says nonsense."""
    for variable in ("RANK", "WORLD_SIZE", "MASTER_PORT"):
        if number_in(variable) is None:
            given = shown(os.environ.get(variable))
            raise WorldError(f"not started by torchrun: {variable} is {given}, wanted a number")
    if "MASTER_ADDR" not in os.environ:
        raise WorldError("not started by torchrun: MASTER_ADDR is not set")
    rank, size, port = (int(os.environ[variable]) for variable in ("RANK", "WORLD_SIZE", "MASTER_PORT"))
    if rank >= size or not 0 < port < 65536:
        raise WorldError(f"not started by torchrun: rank {rank} of {size}, port {port}")
    return rank, size


def number_in(variable: str) -> int | None:
    """The whole number, of nine digits at most, that an environment variable holds; None where it holds none."""
    text = os.environ.get(variable, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None
