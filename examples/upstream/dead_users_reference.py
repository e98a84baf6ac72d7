"""An object stays for ever where the only process that had an RRef of it has died (upstream issue 26379)."""

import os
import sys
import tempfile
import time
import weakref

import torch
import torch.distributed.rpc as rpc
from torch import multiprocessing

objects = weakref.WeakSet()


def make():
    objects.add(made := torch.nn.Identity())
    return made


def play(rank, store):
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{store}", rpc_timeout=2)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 1:
        rref = rpc.remote("w0", make)
        os._exit(len(rref.rpc_sync().state_dict()))  # which needs the object, and keeps the RRef
    time.sleep(6)
    print(f"{len(objects)} objects are left 6 s after the start, wanted none", flush=True)
    os._exit(10 if objects else 0)


if __name__ == "__main__":
    store = f"{tempfile.mkdtemp()}/store"
    processes = multiprocessing.start_processes(play, (store,), nprocs=2, join=False).processes
    status = [process.join() or process.exitcode for process in processes]
    sys.exit(10 if status == [10, 0] else any(status))
