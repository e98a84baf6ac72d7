"""A till pays three times at a shop, and asks again when a call times out: it may pay twice, and then fails."""

import tempfile

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

paid = []


def pay(amount):
    paid.append(amount)
    return sum(paid)


def play(rank, folder):
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{folder}/store", rpc_timeout=2)
    rpc.init_rpc(["shop", "till"][rank], rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 1:
        for amount in (1, 10, 100):
            try:
                total = rpc.rpc_sync("shop", pay, args=(amount,))
            except RuntimeError:  # the call timed out: ask again
                total = rpc.rpc_sync("shop", pay, args=(amount,))
        assert total == 111, f"the shop has {total}"
    rpc.shutdown()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(play, args=(folder,), nprocs=2)
