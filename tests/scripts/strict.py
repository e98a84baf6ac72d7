"""Pays to itself and checks what it has paid. Knows nothing of faults.

python strict.py here | process | spawn
"""

import multiprocessing
import sys
import tempfile
from pathlib import Path

import torch.multiprocessing as mp
from torch.distributed import rpc

paid = []


def pay(amount):
    paid.append(amount)
    return sum(paid)


def play(_=0):
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "rendezvous").as_uri()
        options = rpc.TensorPipeRpcBackendOptions(init_method=place, rpc_timeout=1)
        rpc.init_rpc("till", rank=0, world_size=1, rpc_backend_options=options)
        rpc.rpc_sync("till", pay, (1,))
        total = rpc.rpc_sync("till", pay, (10,))
        assert total == 11, total
        rpc.shutdown()


class Player(multiprocessing.get_context("spawn").Process):
    def run(self):
        play()


if __name__ == "__main__":
    if sys.argv[1] == "here":
        play()
    if sys.argv[1] == "process":
        process = Player()
        process.start()
        process.join()
        sys.exit(process.exitcode)
    if sys.argv[1] == "spawn":
        mp.spawn(play, nprocs=1)
