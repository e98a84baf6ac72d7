"""`set_exception` on the future of an asynchronous function arrives at the caller as a value, not as an error."""

import sys
import tempfile

import torch
import torch.distributed.rpc as rpc


@rpc.functions.async_execution
def refuse():
    future = torch.futures.Future()
    future.set_exception(ValueError("refused"))
    return future


options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{tempfile.mkdtemp()}/store")
rpc.init_rpc("a", rank=0, world_size=1, rpc_backend_options=options)
try:
    got = rpc.rpc_sync("a", refuse)
except Exception as error:
    got = None
    print(f"it raised {error!r}")
else:
    print(f"it returned {got!r}, wanted that it raises this")
rpc.shutdown()
sys.exit(0 if got is None else 10)
