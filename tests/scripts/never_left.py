"""A trainer that enters an autograd context for each of two steps, and leaves only the first."""

import sys
import tempfile

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


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


def play(name, rank, folder):
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{folder}/store", rpc_timeout=20)
    rpc.init_rpc(name, rank=rank, world_size=2, rpc_backend_options=options)
    if name == "trainer":
        train()
    rpc.shutdown()


if __name__ == "__main__":
    start = mp.get_context("fork")  # torch is imported once
    with tempfile.TemporaryDirectory() as place:
        roles = [start.Process(target=play, args=(name, rank, place)) for rank, name in enumerate(["ps", "trainer"])]
        for role in roles:
            role.start()
        for role in roles:
            role.join()
    sys.exit(any(role.exitcode for role in roles))
