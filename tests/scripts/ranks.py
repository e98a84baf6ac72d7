"""Processes with a class of their own, whose exit codes nobody reads. Knows nothing of faults.

python ranks.py right | wrong
"""

import multiprocessing
import sys
import tempfile

from torch.distributed import rpc

paid = []


def pay(amount):
    paid.append(amount)
    return sum(paid)


class Rank(multiprocessing.Process):
    def __init__(self, name, place):
        super().__init__(name=name)
        self.place = place

    def run(self):
        options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{self.place}", rpc_timeout=5)
        rpc.init_rpc(self.name, rank=int(self.name == "till"), world_size=2, rpc_backend_options=options)
        total = rpc.rpc_sync("shop", pay, args=(2,)) if self.name == "till" else 0
        rpc.shutdown()
        assert total in (0, 2 if sys.argv[1] == "right" else 3), total


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        ranks = [Rank(name, f"{folder}/place") for name in ("shop", "till")]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join()
