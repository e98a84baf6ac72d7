"""A customer pays three times into an account, and asks again when no answer comes. It may pay twice.

python naive.py
"""

import tempfile
from threading import Lock

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

ATTEMPTS = 3

balance = 0
lock = Lock()


def pay(amount):
    """Runs at the bank: the new balance."""
    global balance
    with lock:
        balance += amount
        return balance


def ask(function, *args):
    """Call the bank, and again after a time-out."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return rpc.rpc_sync("bank", function, args=args)
        except RuntimeError as error:
            # This error is indefinite: the bank may have been paid, or may be yet.
            if "RPCErr:1:" not in str(error) or attempt == ATTEMPTS:
                raise


def customer():
    for amount in (1, 10, 100):
        print(f"paid {amount}, the balance is {ask(pay, amount)}", flush=True)


def play(rank, folder):
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{folder}/store", rpc_timeout=1)
    rpc.init_rpc(["bank", "customer"][rank], rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 1:
        customer()
    rpc.shutdown()
    if rank == 0:  # all calls have been executed by now, even late ones for which nobody waits any more
        print(f"in the end the balance is {balance}", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(play, args=(folder,), nprocs=2, start_method="fork")
