"""A till pays at a shop; both are forked, and nobody reads how they end. Knows nothing of faults.

python stall.py strict | gone | leaves | rude | open | served
"""

import multiprocessing
import os
import sys
import tempfile
from pathlib import Path

from torch.distributed import rpc

paid = []


def pay(amount):
    paid.append(amount)
    return len(paid)


def start(name, rank, place):
    options = rpc.TensorPipeRpcBackendOptions(init_method=place, rpc_timeout=1)
    rpc.init_rpc(name, rank=rank, world_size=2, rpc_backend_options=options)


def end(how):
    if how == "rude":
        rpc.shutdown(graceful=False)
    elif how != "open":
        rpc.shutdown(timeout=5)


def shop(how, place, done):
    start("shop", 0, place)
    if how in ("rude", "open", "served"):
        done.wait(None if how == "served" else 20)
    end(how)


def till(how, place, done):
    start("till", 1, place)
    for amount in (1, 2, 3):
        try:
            rpc.rpc_sync("shop", pay, (amount,))
        except RuntimeError as error:
            if how == "strict":
                raise
            if how == "leaves":
                sys.exit(1)
            if how == "gone":
                os._exit(0)
            print("not paid", amount, str(error)[:30], flush=True)
    if how != "served":
        done.set()
    end("rude" if how == "served" else how)


if __name__ == "__main__":
    fork = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        done, place = fork.Event(), Path(folder, "rendezvous").as_uri()
        players = [fork.Process(target=play, args=(sys.argv[1], place, done)) for play in (shop, till)]
        for each in players:
            each.start()
        players[1].join()
        if sys.argv[1] == "served":
            players[0].terminate()
        players[0].join()
