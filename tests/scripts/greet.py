"""Every rank greets the first one. Knows nothing of faults.

torchrun --nproc-per-node 2 greet.py
"""

import os
from collections import Counter

from torch.distributed.rpc import init_rpc, rpc_sync, shutdown

heard = Counter()


def greet(name):
    heard[name] += 1
    return heard[name]


def main():
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    init_rpc(f"worker{rank}", rank=rank, world_size=size)
    if rank:
        counts = [rpc_sync("worker0", greet, args=(f"worker{rank}",)) for _ in range(3)]
        print(f"worker{rank} was counted {counts}", flush=True)
    shutdown(timeout=5)


if __name__ == "__main__":
    main()
