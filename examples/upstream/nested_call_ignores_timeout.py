"""The timeout of a call that waits for a thread of its own role does not end it: all threads wait for each other."""

import os
import tempfile
import threading

import torch.distributed.rpc as rpc


def outer():
    return rpc.rpc_sync("a", int, timeout=1)


def give_up():
    print("rpc_sync(timeout=1) has not ended after 5 s", flush=True)
    os._exit(10)


place = tempfile.mkdtemp()
options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{place}/store", num_worker_threads=1)
rpc.init_rpc("a", rank=0, world_size=1, rpc_backend_options=options)
threading.Timer(5, give_up).start()
try:
    print(f"it returned {rpc.rpc_sync('a', outer, timeout=0)}")
except RuntimeError as error:
    print(f"it raised {error}")
os._exit(0)
