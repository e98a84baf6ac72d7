"""A till pays three times at a shop, each a process of its own. Knows nothing of faults.

python shop.py
"""

import socket

import torch.multiprocessing as mp
from torch.distributed.rpc import TensorPipeRpcBackendOptions, init_rpc, rpc_sync, shutdown

paid = []


def pay(amount):
    paid.append(amount)
    return sum(paid)


def takings():
    return paid


def play(rank, port):
    options = TensorPipeRpcBackendOptions(init_method=f"tcp://127.0.0.1:{port}", rpc_timeout=1.5)
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
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(play, args=(port,), nprocs=2)
