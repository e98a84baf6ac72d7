"""The first asynchronous call by an RRef's proxy loses the gradients, and nobody says so."""

import sys
import tempfile

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from torch import multiprocessing


def play(rank, store):
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{store}")
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        module, x = rpc.remote("w1", torch.nn.Identity), torch.ones((), requires_grad=True)
        found = []
        for _ in range(2):
            with dist_autograd.context() as context:
                y = module.rpc_async().forward(x).wait() + x
                dist_autograd.backward(context, [y])
                found.append(dist_autograd.get_gradients(context)[x].item())
        print(f"the gradients of x + x are {found}, wanted [2.0, 2.0]")
    rpc.shutdown()
    sys.exit(10 if rank == 0 and found != [2.0, 2.0] else 0)


if __name__ == "__main__":
    store = f"{tempfile.mkdtemp()}/store"
    processes = multiprocessing.start_processes(play, (store,), nprocs=2, join=False).processes
    status = [process.join() or process.exitcode for process in processes]
    sys.exit(10 if status == [10, 0] else any(status))
