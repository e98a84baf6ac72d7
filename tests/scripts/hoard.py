"""A trainer that puts every RRef into a global list, in each of three steps, and passes the last one on."""

import sys
import tempfile

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

made = []
latest = {}


def batch(number):
    return [number]


def show(rref):
    latest["batch"] = rref


def step(number):
    rref = rpc.remote("ps", batch, args=(number,))
    assert rref.to_here() == [number]
    made.append(rref)


def play(name, rank, folder):
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{folder}/store", rpc_timeout=20)
    rpc.init_rpc(name, rank=rank, world_size=3, rpc_backend_options=options)
    if name == "trainer1":
        for number in range(3):
            step(number)
        rpc.rpc_sync("trainer2", show, args=(made[-1],))
    rpc.shutdown()


if __name__ == "__main__":
    start = mp.get_context("fork")  # torch is imported once
    with tempfile.TemporaryDirectory() as place:
        roles = [start.Process(target=play, args=(n, r, place)) for r, n in enumerate(["ps", "trainer1", "trainer2"])]
        for role in roles:
            role.start()
        for role in roles:
            role.join()
    sys.exit(any(role.exitcode for role in roles))
