"""A till pays three times at a shop, each a process of its own. Knows nothing of faults.

python shop.py
"""

import tempfile

import torch.multiprocessing as mp
from torch.distributed.rpc import TensorPipeRpcBackendOptions, init_rpc, rpc_sync, shutdown

paid = []


def pay(amount):
    paid.append(amount)
    return sum(paid)


def takings():
    return paid


def play(rank, folder):
    options = TensorPipeRpcBackendOptions(init_method=f"file://{folder}/store", rpc_timeout=1.5)
    init_rpc(["shop", "till"][rank], rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 1:
        for amount in (1, 10, 100):
            try:
                print(f"paid {amount}, in all {rpc_sync('shop', pay, args=(amount,))}", flush=True)
            except RuntimeError as error:
                print(f"not paid {amount}: {str(error)[:24]}", flush=True)
        print("takings", rpc_sync("shop", takings), flush=True)
    shutdown(timeout=5)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(play, args=(folder,), nprocs=2)
