"""`to_here(timeout)` of an RRef on its own process has no limit: it waits until the object is made."""

import os
import tempfile
import threading
import time

import torch.distributed.rpc as rpc


def give_up():
    print("remote(timeout=1).to_here(timeout=1) has not ended after 5 s", flush=True)
    os._exit(10)


options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{tempfile.mkdtemp()}/store")
rpc.init_rpc("a", rank=0, world_size=1, rpc_backend_options=options)
threading.Timer(5, give_up).start()
try:
    print(f"it returned {rpc.remote('a', time.sleep, args=(3600,), timeout=1).to_here(timeout=1)}")
except RuntimeError as error:
    print(f"it raised {error}")
os._exit(0)
