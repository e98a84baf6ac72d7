"""A till that buys twice at a shop which SIGTERM ends: in order (``polite``), with a status (``leave``), by an error
(``fail``), or as Python does (``plain``)."""

import os
import signal
import sys
import tempfile
import threading

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

closed = threading.Event()
handled = threading.Event()


def sell() -> str:
    handled.wait(20)
    return "sold"


def close(number: int, frame: object) -> None:
    closed.set()


def leave(number: int, frame: object) -> None:
    sys.exit(3)


def fail(number: int, frame: object) -> None:
    raise RuntimeError("asked to end")


HANDLERS = {"polite": close, "leave": leave, "fail": fail, "plain": signal.SIG_DFL}


def play(rank: int, folder: str, how: str) -> None:
    os.environ["TP_SOCKET_IFNAME"] = "lo"
    if rank == 0:
        signal.signal(signal.SIGTERM, HANDLERS[how])
    handled.set()
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{folder}/store", rpc_timeout=5)
    rpc.init_rpc(["shop", "till"][rank], rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 1:
        for _ in range(2):
            assert rpc.rpc_sync("shop", sell) == "sold"
    elif how != "plain":
        # In short waits: one that begins just after the signal has come does not end by it.
        assert any(closed.wait(0.1) for _ in range(200)), "nobody has asked the shop to close"
    rpc.shutdown()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(play, args=(folder, sys.argv[1]), nprocs=2)
