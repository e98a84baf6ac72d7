"""Two objects on two owners, each with an RRef to the other, that nothing else refers to when the program is done."""

import sys
import tempfile

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

NAMES = ["left", "middle", "right"]


class Node:
    def __init__(self):
        self.peers = []

    def link(self, peer):
        self.peers.append(peer)

    def unlink(self):
        self.peers.clear()


def tie(untie):
    left = rpc.remote("left", Node)
    right = rpc.remote("right", Node)
    left.rpc_sync().link(right)
    right.rpc_sync().link(left)
    if untie:
        left.rpc_sync().unlink()


def play(rank, folder, untie):
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{folder}/store", rpc_timeout=20)
    rpc.init_rpc(NAMES[rank], rank=rank, world_size=3, rpc_backend_options=options)
    if rank == 1:
        tie(untie)
    rpc.shutdown()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        mp.start_processes(play, (place, "untie" in sys.argv), nprocs=3, start_method="fork")
