"""Errata 0.5 to 0.12: what the platform does to every listing."""

from __future__ import annotations

import socket
from datetime import timedelta

import gymnasium
import torch.distributed as dist
import torch.distributed.rpc as rpc

from tests.errata.listings import CANNOT, OLD, shows


@shows(
    "0.5",
    raises=(
        "RuntimeError" if OLD else "DistNetworkError",
        "The server socket has failed to listen on any local network address. port: …, "
        f"useIpv6: {'0' if OLD else 'false'}, code: -98, name: EADDRINUSE, message: address already in use",
    ),
    here=True,
)
def rendezvous_on_a_port_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        dist.TCPStore("localhost", other.getsockname()[1], 1, is_master=True)  # type: ignore[attr-defined]


@shows("0.9", raises=("ValueError", "too many values to unpack (expected 4)"), here=True)
def four_values_of_a_step() -> None:
    env = gymnasium.make("CartPole-v1")
    env.reset()
    _state, _reward, _done, _ = env.step(0)  # type: ignore[misc]


@shows("0.11", raises=("DistStoreError", "wait timeout after 0ms, keys: /rpc_prefix_0/0/0"), here=True)
def a_store_without_time() -> None:
    """Ask the store, as init_rpc leaves it with an rpc_timeout of 0, for a key that a peer has not written yet."""
    store = dist.TCPStore("127.0.0.1", 0, 1, is_master=True)  # type: ignore[attr-defined]
    store.set_timeout(timedelta(seconds=0))
    dist.PrefixStore("rpc_prefix_0/0", store).get("0")  # type: ignore[attr-defined]


@shows("0.12", "S1.5", raises=("AttributeError", f"{CANNOT} local object 'a_lambda_as_target.<locals>.<lambda>'"))
def a_lambda_as_target() -> None:
    rpc.rpc_sync("worker1", lambda: 1)
