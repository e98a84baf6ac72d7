"""A trainer that does not wait for its calls: each puts its RRef into a global list while all roles shut down."""

import tempfile
import threading

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

kept = []
come = []
shutdown_has_begun = threading.Event()
NAMES = ["ps", "trainer1", "trainer2"]


def batch():
    return [1]


def comes(name):
    come.append(name)
    if len(come) == len(NAMES):
        threading.Timer(3.0, shutdown_has_begun.set).start()


def keep(rref):
    assert shutdown_has_begun.wait(20)
    kept.append(rref)


def play(rank, folder):
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{folder}/store", rpc_timeout=20)
    rpc.init_rpc(NAMES[rank], rank=rank, world_size=3, rpc_backend_options=options)
    if rank == 1:
        for _ in range(3):
            rpc.rpc_async("trainer2", keep, args=(rpc.remote("ps", batch),))
    rpc.rpc_sync("trainer2", comes, args=(NAMES[rank],))
    rpc.shutdown()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        mp.start_processes(play, (place,), nprocs=3, start_method="fork")
