"""A till pays three amounts at a shop, and tries again after an error; it writes the total. Knows nothing of faults.

python tally.py FILE
"""

import multiprocessing
import sys
import tempfile
from pathlib import Path

import torch
from torch.distributed import rpc

paid = []


def pay(amount):
    paid.append(amount)


def total():
    return torch.tensor(paid).sum()


def start(name, rank, place):
    options = rpc.TensorPipeRpcBackendOptions(init_method=place, rpc_timeout=1)
    rpc.init_rpc(name, rank=rank, world_size=2, rpc_backend_options=options)


def shop(place, file):
    start("shop", 0, place)
    rpc.shutdown()


def till(place, file):
    start("till", 1, place)
    for amount in (1, 10, 100):
        try:
            rpc.rpc_sync("shop", pay, (amount,))
        except RuntimeError:
            print(f"paying {amount} again", flush=True)
            rpc.rpc_sync("shop", pay, (amount,))
    taken = rpc.rpc_sync("shop", total)
    print(f"{taken} in the till", flush=True)
    torch.save({"total": taken}, file)
    rpc.shutdown()


if __name__ == "__main__":
    fork = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "rendezvous").as_uri()
        players = [fork.Process(target=play, args=(place, sys.argv[1])) for play in (shop, till)]
        for each in players:
            each.start()
        for each in players:
            each.join()
    sys.exit(max(abs(each.exitcode) for each in players))
