"""A worker sends gradients to a server, which adds them up and answers with the sum."""

import tempfile

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

total = torch.zeros(3)


def add(gradient):
    total.add_(gradient)
    return total


def play(rank, folder):
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{folder}/store", rpc_timeout=5)
    rpc.init_rpc(["ps", "worker"][rank], rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 1:
        for step in range(3):
            print(rpc.rpc_sync("ps", add, args=(torch.ones(3) * (step + 1),)))
    rpc.shutdown()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(play, args=(folder,), nprocs=2)
