"""A trainer that enters an autograd context for each of two steps, and leaves only the first."""

import tempfile

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

NAMES = ["ps", "trainer"]


def double(tensor):
    return 2 * tensor


def forward():
    parameter = torch.ones(1, requires_grad=True)
    assert rpc.rpc_sync("ps", double, args=(parameter,)).item() == 2


def train():
    with dist_autograd.context():
        forward()
    dist_autograd.context().__enter__()
    forward()


def play(rank, folder):
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{folder}/store", rpc_timeout=20)
    rpc.init_rpc(NAMES[rank], rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 1:
        train()
    rpc.shutdown()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        mp.start_processes(play, (place,), nprocs=2, start_method="fork")
