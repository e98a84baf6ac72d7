"""Objects of two processes that have RRefs of each other stay for ever (upstream issue 27096)."""

import gc
import sys
import tempfile
import time

import torch.distributed.rpc as rpc
from torch import multiprocessing


class Object:
    def __init__(self, other):
        self.other = other


def left():
    gc.collect()
    return sum(isinstance(each, Object) for each in gc.get_objects())


def play(rank, store):
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{store}")
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        mine = Object(None)
        mine.other = rpc.remote("w1", Object, (rpc.RRef(mine),))
        del mine
        time.sleep(3)
        found = [left(), rpc.rpc_sync("w1", left)]
        print(f"{found} objects are left at the processes, wanted none: nobody else refers to them")
    rpc.shutdown()
    sys.exit(10 if rank == 0 and any(found) else 0)


if __name__ == "__main__":
    store = f"{tempfile.mkdtemp()}/store"
    processes = multiprocessing.start_processes(play, (store,), nprocs=2, join=False).processes
    status = [process.join() or process.exitcode for process in processes]
    sys.exit(10 if status == [10, 0] else any(status))
