"""A parameter that is an argument of a call gets no gradient, and nobody says so (upstream issue 86525)."""

import sys
import tempfile

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from torch import multiprocessing


def twice(x):
    return 2 * x


def play(rank, store):
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{store}")
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        parameter = torch.nn.Parameter(torch.ones(()))
        with dist_autograd.context() as context:
            y = rpc.rpc_sync("w1", twice, (parameter,)) + parameter
            dist_autograd.backward(context, [y])
            gradient = dist_autograd.get_gradients(context)[parameter].item()
        print(f"the gradient of 2 p + p is {gradient}, wanted 3.0")
    rpc.shutdown()
    sys.exit(10 if rank == 0 and gradient != 3 else 0)


if __name__ == "__main__":
    store = f"{tempfile.mkdtemp()}/store"
    processes = multiprocessing.start_processes(play, (store,), nprocs=2, join=False).processes
    status = [process.join() or process.exitcode for process in processes]
    sys.exit(10 if status == [10, 0] else any(status))
