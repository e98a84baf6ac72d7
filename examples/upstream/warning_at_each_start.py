"""Each `init_rpc` warns of a class that its user does not use (upstream issue 149393)."""

import sys
import tempfile
import warnings

import torch.distributed.rpc as rpc

options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{tempfile.mkdtemp()}/store")
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    rpc.init_rpc("a", rank=0, world_size=1, rpc_backend_options=options)
rpc.shutdown()
print(f"{len(found)} warnings, wanted none", *(str(each.message) for each in found), sep="\n")
sys.exit(10 if any("ProcessGroupGloo" in str(each.message) for each in found) else 0)
