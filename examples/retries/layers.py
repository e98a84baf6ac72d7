"""A customer pays three times into an account. Two layers ask again when no answer comes, and only the inner one
numbers its requests. It may pay twice.

python layers.py
"""

import tempfile
from itertools import count
from threading import Lock

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

ATTEMPTS = 2

balance = 0
answers = {}  # (customer, request number) -> what the bank has answered
lock = Lock()


def pay(customer, number, amount):
    """Runs at the bank: the balance after this request. One that comes again gets the answer of the first time."""
    global balance
    with lock:  # a request that comes again may come while the first one is executed
        if (customer, number) not in answers:
            balance += amount
            answers[customer, number] = balance
        return answers[customer, number]


numbers = count(1)


def ask(function, *args):
    """Call the bank, and again after a time-out: both attempts of one request have one number."""
    name, number = rpc.get_worker_info().name, next(numbers)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return rpc.rpc_sync("bank", function, args=(name, number, *args))
        except RuntimeError as error:
            if "RPCErr:1:" not in str(error) or attempt == ATTEMPTS:
                raise


def insist(function, *args):
    """Ask, and ask anew if that has timed out. This takes a new number, by which the bank does not know the request."""
    try:
        return ask(function, *args)
    except RuntimeError as error:
        if "RPCErr:1:" not in str(error):
            raise
        return ask(function, *args)


def customer():
    for amount in (1, 10, 100):
        print(f"paid {amount}, the balance is {insist(pay, amount)}", flush=True)


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
