"""An asynchronous call by an RRef's proxy that fails keeps the RRef for ever: its future keeps the waiting frames."""

import gc
import sys
import tempfile
import time

import torch.distributed.rpc as rpc


class Object:
    """Has no method that could be called."""


def use():
    rref = rpc.remote("a", Object)
    try:
        rref.rpc_async().method().wait()
    except AttributeError as error:
        print(error)


options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{tempfile.mkdtemp()}/store")
rpc.init_rpc("a", rank=0, world_size=1, rpc_backend_options=options)
use()
time.sleep(2)
gc.collect()
left = sum(isinstance(each, Object) for each in gc.get_objects())
print(f"{left} objects are left, wanted none: nobody refers to them")
rpc.shutdown()
sys.exit(10 if left else 0)
