"""The RPC agent of this process: started quietly, with options as plain data."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Mapping
from typing import Any

import torch.distributed.rpc as rpc

from reference.outcome import WorldError
from reference.roles import Roles

# Sockets for messages, and large tensors straight from the sender's memory, where the kernel lets siblings read
# each other's (else by socket as well). Starts in half the time of torch's default, also with 64 roles, for which
# that fails; and it does not keep a core busy with waiting (docs/benchmarks.md).
LOCAL_OPTIONS: Mapping[str, Any] = {"_transports": ["uv"], "_channels": ["cma", "basic"]}


# What TENSORPIPE takes, as keyword arguments; but the rendezvous is a world's own.
KNOWN = [
    option
    for option in inspect.signature(rpc.TensorPipeRpcBackendOptions).parameters
    if option not in ("self", "init_method")
]


def chosen_options(roles: object, name: str, backend: str | None, options: Mapping[str, Any] | None) -> dict[str, Any]:
    """What role ``name`` gets: `LOCAL_OPTIONS`, over them the roles' own, over those the caller's.

    Neither of the first two for another backend; and not `LOCAL_OPTIONS` with ``device_maps``, which need
    channels for CUDA.

    Raises:
        WorldError: an option that TENSORPIPE does not know. Of other backends a role may register them itself.
    """
    own = {**roles.options, **roles.each.get(name, {})} if isinstance(roles, Roles) else {}
    given = dict(options or {})
    if backend not in (None, "TENSORPIPE"):
        return given
    together = {**own, **given}
    unknown = [repr(option) for option in together if option not in KNOWN]
    if unknown:
        raise WorldError(f"no RPC option {', '.join(unknown)}, wanted some of {', '.join(KNOWN)}")
    return together if "device_maps" in together else {**LOCAL_OPTIONS, **together}


def listen_on_loopback() -> None:
    """Keep the agent and gloo off every other interface: their requests are pickles, so code."""
    os.environ["TP_SOCKET_IFNAME"] = os.environ["GLOO_SOCKET_IFNAME"] = "lo"


def silence_upstream() -> None:
    """Upstream's warnings about upstream's own code, of which a user can change nothing (erratum 0.10)."""
    # init_rpc's use of ProcessGroupGloo (issue 149393)
    warnings.filterwarnings("ignore", message=r"(?s).*ProcessGroupGloo", category=UserWarning)
    # DistributedOptimizer's functional optimizers, on the owner of the parameters
    warnings.filterwarnings("ignore", message=r".?TorchScript.? support for functional optimizers")


def start_agent(
    name: str,
    rank: int,
    world_size: int,
    init_method: str,
    backend: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> None:
    """``init_rpc`` without its deprecation warnings; ``options`` are the backend's keyword arguments.

    Raises:
        KeyError: a backend that is not registered.
        TypeError: an option that the backend does not know.
    """
    # Looked up now: registering a backend replaces this enumeration.
    kind = rpc.backend_registry.BackendType[backend or "TENSORPIPE"]
    wanted = {"init_method": init_method, **(options or {})}
    if kind.name == "TENSORPIPE":
        # Not torch's own constructor for this: it drops device_maps without a word.
        built = rpc.TensorPipeRpcBackendOptions(**wanted)
    else:
        built = rpc.backend_registry.construct_rpc_backend_options(kind, **wanted)
    silence_upstream()
    rpc.init_rpc(name, backend=kind, rank=rank, world_size=world_size, rpc_backend_options=built)
