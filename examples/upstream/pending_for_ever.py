"""`rpc.remote` to a process that has died leaves an RRef pending for ever."""

import os
import sys
import tempfile
import time

import torch.distributed.rpc as rpc
from torch import multiprocessing
from torch._C._distributed_rpc import _rref_context_get_debug_info


def play(rank, store):
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{store}", rpc_timeout=2)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 1:
        os._exit(0)
    time.sleep(2)
    try:
        rpc.remote("w1", int, timeout=2)
    except RuntimeError as error:
        print(error)
    time.sleep(5)
    pending = int(_rref_context_get_debug_info()["num_pending_users"])
    print(f"{pending} RRefs are pending 5 s after the call, which had 2 s, wanted none", flush=True)
    os._exit(10 if pending else 0)


if __name__ == "__main__":
    store = f"{tempfile.mkdtemp()}/store"
    processes = multiprocessing.start_processes(play, (store,), nprocs=2, join=False).processes
    status = [process.join() or process.exitcode for process in processes]
    sys.exit(10 if status == [10, 0] else any(status))
