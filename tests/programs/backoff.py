"""A client that asks again, with longer and longer pauses; the account knows each payment by its number.

python backoff.py
"""

import functools
import random
import tempfile
import time

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

AMOUNTS = (1, 10, 100, 1000)


class GaveUp(ConnectionError):
    """All attempts have failed."""


def retry(attempts=4, base=0.1, errors=(RuntimeError,)):
    """Call again after an error, after a pause that doubles, with jitter."""

    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            pause = base
            for _ in range(attempts - 1):
                try:
                    return function(*args, **kwargs)
                except errors:
                    time.sleep(pause * random.uniform(0.5, 1.0))
                    pause *= 2
            try:
                return function(*args, **kwargs)
            except errors as error:
                raise GaveUp(f"{function.__name__}: {attempts} attempts") from error

        return wrapper

    return decorate


class Account:
    def __init__(self):
        self.payments = {}

    def pay(self, number, amount):
        self.payments[number] = amount
        return sum(self.payments.values())

    def balance(self):
        return sum(self.payments.values())


account = Account()


def pay(number, amount):
    return account.pay(number, amount)


def balance():
    return account.balance()


@retry()
def send(number, amount):
    return rpc.rpc_sync("bank", pay, args=(number, amount), timeout=1)


@retry()
def ask():
    return rpc.rpc_sync("bank", balance, timeout=1)


def run(rank, folder):
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{folder}/store", rpc_timeout=5)
    rpc.init_rpc(["bank", "client"][rank], rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 1:
        for number, amount in enumerate(AMOUNTS):
            send(number, amount)
        print(f"balance: {ask()}", flush=True)
    rpc.shutdown()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(run, args=(folder,), nprocs=2)
