"""An all-reduce around a ring, by hand: every rank sends to its right, and receives from its left.

torchrun --standalone --nproc-per-node 3 ring.py
"""

import os
import queue

import torch
import torch.distributed.rpc as rpc

ROUNDS = 2
inbox = queue.Queue()


def put(chunk):
    inbox.put(chunk)


def progress(rank, number):
    print(f"rank {rank} has finished round {number}", flush=True)


def exchange(right, chunk):
    future = rpc.rpc_async(right, put, args=(chunk,))
    received = inbox.get(timeout=15)
    future.wait()
    return received


def all_reduce(tensor, rank, size):
    """Sum over all ranks."""
    right = f"rank{(rank + 1) % size}"
    chunks = list(tensor.clone().chunk(size))
    for step in range(size - 1):
        received = exchange(right, chunks[(rank - step) % size])
        chunks[(rank - step - 1) % size] += received
    for step in range(size - 1):
        chunks[(rank - step) % size] = exchange(right, chunks[(rank - step + 1) % size])
    return torch.cat(chunks)


def main():
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    options = rpc.TensorPipeRpcBackendOptions(rpc_timeout=3)
    rpc.init_rpc(f"rank{rank}", rank=rank, world_size=size, rpc_backend_options=options)
    for number in range(ROUNDS):
        mine = torch.arange(6.0) * (rank + 1) + number
        total = all_reduce(mine, rank, size)
        expected = torch.arange(6.0) * size * (size + 1) / 2 + number * size
        assert torch.equal(total, expected), f"rank {rank}, round {number}: {total} is not {expected}"
        if rank != 0:
            rpc.rpc_async("rank0", progress, args=(rank, number))  # nobody waits for it
    rpc.shutdown()


if __name__ == "__main__":
    main()
