"""The RPC agent of this process: started quietly, with options as plain data."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any

import torch.distributed.rpc as rpc

# The fastest to start of all combinations, works for any number of roles (torch's default fails at 64), and
# moves large tensors as fast as shared memory does (docs/benchmarks.md).
LOCAL_OPTIONS: Mapping[str, Any] = {"_transports": ["uv"], "_channels": ["basic"]}


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
