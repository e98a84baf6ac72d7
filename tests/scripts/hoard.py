"""A trainer that puts every RRef into a global list, in each of three steps, and passes the last one on."""

import tempfile

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

made = []
latest = {}
NAMES = ["ps", "trainer1", "trainer2"]


def batch(number):
    return [number]


def show(rref):
    latest["batch"] = rref


def step(number):
    rref = rpc.remote("ps", batch, args=(number,))
    assert rref.to_here() == [number]
    made.append(rref)


def play(rank, folder):
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{folder}/store", rpc_timeout=20)
    rpc.init_rpc(NAMES[rank], rank=rank, world_size=3, rpc_backend_options=options)
    if rank == 1:
        for number in range(3):
            step(number)
        rpc.rpc_sync("trainer2", show, args=(made[-1],))
    rpc.shutdown()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        mp.start_processes(play, (place,), nprocs=3, start_method="fork")
