"""Every rank asks the next one. The last one dies in its first start. Knows nothing of faults.

torchrun --standalone --nproc-per-node 2 --max-restarts 1 start_again.py
"""

import os

from torch.distributed.rpc import init_rpc, rpc_sync, shutdown

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
init_rpc(f"worker{rank}", rank=rank, world_size=size)
if rank == size - 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    os._exit(9)
rpc_sync(f"worker{(rank + 1) % size}", os.getpid)
shutdown()
print(f"worker{rank} has shut down", flush=True)
