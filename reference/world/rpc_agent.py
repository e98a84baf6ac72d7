"""Start the RPC agent of this process, without upstream's warnings, from options as plain data."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Mapping
from typing import Any

import torch.distributed.rpc as rpc

from reference.outcome import WorldError
from reference.roles import Roles

# Messages go through sockets. Large tensors are read from the sender's memory if the kernel lets sibling processes do
# that, and otherwise go through sockets, too. These options start in half the time of torch's default, which also fails
# with 64 roles; and they do not keep a core busy with waiting (docs/benchmarks.md).
LOCAL_OPTIONS: Mapping[str, Any] = {"_transports": ["uv"], "_channels": ["cma", "basic"]}


# The options of TENSORPIPE, as keyword arguments, without the rendezvous, which is the world's own.
KNOWN = [
    option
    for option in inspect.signature(rpc.TensorPipeRpcBackendOptions).parameters
    if option not in ("self", "init_method")
]


def chosen_options(roles: object, name: str, backend: str | None, options: Mapping[str, Any] | None) -> dict[str, Any]:
    """The options of role ``name``: `LOCAL_OPTIONS`, overridden by the roles' own, overridden by the caller's.

    Another backend gets only the caller's. With ``device_maps``, `LOCAL_OPTIONS` are left out, because device maps need
    channels for CUDA.

    Raises:
        WorldError: TENSORPIPE does not know an option. Those of other backends are not checked, because a role may
            register the backend itself.
    """
    own = {**roles.options, **roles.each.get(name, {})} if isinstance(roles, Roles) else {}
    given = dict(options or {})
    if backend not in (None, "TENSORPIPE"):
        return given
    together = {**own, **given}
    unknown = [repr(option) for option in together if option not in KNOWN]
    if unknown:
        raise WorldError(f"unknown RPC option {', '.join(unknown)}, wanted some of {', '.join(KNOWN)}")
    return together if "device_maps" in together else {**LOCAL_OPTIONS, **together}


def listen_on_loopback() -> None:
    """Let the agent and gloo listen on loopback only, because their requests are pickles, and so code."""
    os.environ["TP_SOCKET_IFNAME"] = os.environ["GLOO_SOCKET_IFNAME"] = "lo"


def silence_upstream() -> None:
    """Ignore upstream's warnings about upstream's own code, which no user can change (erratum 0.10)."""
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
    """Call ``init_rpc`` without its deprecation warnings; ``options`` are the backend's keyword arguments.

    Raises:
        KeyError: the backend is not registered.
        TypeError: the backend does not know an option.
    """
    # Looked up only now, because registering a backend replaces this enumeration.
    kind = rpc.backend_registry.BackendType[backend or "TENSORPIPE"]
    wanted = {"init_method": init_method, **(options or {})}
    if kind.name == "TENSORPIPE":
        # Not by torch's own function for this, which drops device_maps silently.
        built = rpc.TensorPipeRpcBackendOptions(**wanted)
    else:
        built = rpc.backend_registry.construct_rpc_backend_options(kind, **wanted)
    silence_upstream()
    rpc.init_rpc(name, backend=kind, rank=rank, world_size=world_size, rpc_backend_options=built)
