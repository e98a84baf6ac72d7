"""`rpc.shutdown()` waits without a limit for a process that has died."""

import os
import sys
import tempfile

import torch.distributed.rpc as rpc
from torch import multiprocessing


def play(rank, store):
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{store}", rpc_timeout=2)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 1:
        os._exit(3)
    rpc.shutdown()


if __name__ == "__main__":
    place = tempfile.mkdtemp()
    processes = multiprocessing.start_processes(play, (f"{place}/store",), nprocs=2, join=False).processes
    processes[1].join()
    processes[0].join(6)
    print(f"w1 has died, and w0 {'is still in' if processes[0].is_alive() else 'has ended'} its shutdown after 6 s")
    if processes[0].is_alive():
        processes[0].kill()
        sys.exit(10 if processes[1].exitcode == 3 else 1)  # w1 came to its end
    sys.exit(processes[0].exitcode or processes[1].exitcode != 3)
