"""`DistributedOptimizer` of a class of one's own moves a parameter without a gradient by its last gradient again."""

import sys
import tempfile

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from torch.distributed.optim import DistributedOptimizer


class PlainSGD(torch.optim.SGD):
    """Has no functional form in torch, as every optimizer of a user's own."""


options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{tempfile.mkdtemp()}/store")
rpc.init_rpc("a", rank=0, world_size=1, rpc_backend_options=options)
one, two = (torch.nn.Parameter(torch.zeros(())) for _ in range(2))
optimizer = DistributedOptimizer(PlainSGD, [rpc.RRef(one), rpc.RRef(two)], lr=1.0)
for loss in (one + two, two * 1):  # the second does not need `one`
    with dist_autograd.context() as context:
        dist_autograd.backward(context, [loss])
        optimizer.step(context)
print(f"after a step of both and a step of the second they are {one.item()} and {two.item()}, wanted -1 and -2")
rpc.shutdown()
sys.exit(0 if one.item() == -1 else 10)
