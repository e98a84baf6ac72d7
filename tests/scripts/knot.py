"""Two objects on two owners, each with an RRef to the other, that nothing else refers to when the program is done."""

import sys
import tempfile

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


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


def play(name, rank, folder, untie):
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{folder}/store", rpc_timeout=20)
    rpc.init_rpc(name, rank=rank, world_size=3, rpc_backend_options=options)
    if name == "middle":
        tie(untie)
    rpc.shutdown()


if __name__ == "__main__":
    start = mp.get_context("fork")  # torch is imported once
    untie = "untie" in sys.argv
    with tempfile.TemporaryDirectory() as place:
        names = ["left", "middle", "right"]
        roles = [start.Process(target=play, args=(n, r, place, untie)) for r, n in enumerate(names)]
        for role in roles:
            role.start()
        for role in roles:
            role.join()
    sys.exit(any(role.exitcode for role in roles))
