"""A process outside a world attacks its roles: it finds their ports, connects, and runs code in them."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from datetime import timedelta
from multiprocessing import get_context
from multiprocessing.connection import Connection

import torch.distributed.rpc as rpc
from torch._C import _distributed_autograd as dist_autograd
from torch._C._distributed_c10d import HashStore, PrefixStore
from torch._C._distributed_rpc import TensorPipeAgent
from torch.distributed.rpc import api

from tests.support.roles_plain import listening


def ports_of(pid: int, seen_by: int | str = "self") -> list[int]:
    return [port for _, port in listening(pid, seen_by)]


def reaches(port: int) -> bool:
    """Return whether a process listens there, on our loopback. After that, an RPC agent accepts no other peer."""
    with suppress(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=10).close()
        return True
    return False


def pid_from_within(port: int) -> int | str:
    """Return the process id that a stranger's code sees at this port, or the error that the stranger gets."""
    ours, theirs = get_context("forkserver").Pipe()
    stranger = get_context("forkserver").Process(target=_send_code, args=(port, theirs))
    stranger.start()
    theirs.close()
    try:
        answer = ours.recv() if ours.poll(60) else "no answer"
        assert isinstance(answer, int | str)
        return answer
    finally:
        ours.close()
        stranger.kill()
        stranger.join()


def _send_code(port: int, answer: Connection) -> None:
    """Send code from a process that knows only a port: the stranger itself fills the store in which agents meet."""
    os.environ["TP_SOCKET_IFNAME"] = "lo"
    store = HashStore()
    store.set_timeout(timedelta(seconds=20))
    PrefixStore("names", store).set("0", "victim")
    PrefixStore("addrs", store).set("victim", f"uv://127.0.0.1:{port}")
    options = rpc.TensorPipeRpcBackendOptions(rpc_timeout=20, _transports=["uv"], _channels=["basic"])
    dist_autograd._init(1)
    api._init_rpc_states(TensorPipeAgent(store, "stranger", 1, 2, options, {}, []))
    try:
        answer.send(rpc.rpc_sync("victim", os.getpid))
    except RuntimeError as error:
        answer.send(str(error))
