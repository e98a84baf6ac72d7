"""A model in two halves: the second half lives on another worker, as a RemoteModule.

python remote_module.py
"""

import os
import sys
import tempfile

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch import nn, optim
from torch.distributed.nn import RemoteModule
from torch.distributed.optim import DistributedOptimizer


class Head(nn.Module):
    def __init__(self, width):
        super().__init__()
        torch.manual_seed(1)
        self.fc = nn.Linear(width, 1)

    def forward(self, x):
        return self.fc(torch.relu(x))


def train(steps=4):
    torch.manual_seed(0)
    body = nn.Linear(4, 16)
    head = RemoteModule("worker/cpu", Head, args=(16,))
    params = [rpc.RRef(p) for p in body.parameters()] + head.remote_parameters()
    opt = DistributedOptimizer(optim.SGD, params, lr=0.05)
    x = torch.randn(32, 4)
    y = x.sum(1, keepdim=True)
    losses = []
    for step in range(steps):
        with dist_autograd.context() as context_id:
            loss = nn.functional.mse_loss(head(body(x)), y)
            dist_autograd.backward(context_id, [loss])
            opt.step(context_id)
        losses.append(loss.item())
        print(f"step {step}: loss {losses[-1]:.4f}", flush=True)
    if not losses[-1] < losses[0]:
        raise ValueError(f"it does not learn: {losses}")


def run(rank, folder):
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{folder}/store", rpc_timeout=4)
    name = "master" if rank == 0 else "worker"
    rpc.init_rpc(name, rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        train()
    rpc.shutdown()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        master, worker = (mp.Process(target=run, args=(rank, folder), daemon=True) for rank in range(2))
        worker.start()
        master.start()
        master.join()
        worker.join(timeout=5)  # a worker that has lost its master is ended with this process
    sys.exit(master.exitcode)
