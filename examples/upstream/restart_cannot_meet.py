"""A process that is started again cannot meet one that stays: both hang in `init_rpc`, whatever the timeouts."""

import sys
import tempfile

import torch.distributed.rpc as rpc
from torch import multiprocessing


def play(rank, place, worlds):
    for number in worlds:
        options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{place}/store{number}", rpc_timeout=2)
        rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
        rpc.shutdown()


if __name__ == "__main__":
    context, place = multiprocessing.get_context("spawn"), tempfile.mkdtemp()
    stays = context.Process(target=play, args=(0, place, [1, 2]))
    ends, again = (context.Process(target=play, args=(1, place, [number])) for number in (1, 2))
    stays.start()
    ends.start()
    ends.join()
    again.start()
    again.join(15)
    hang = [each.is_alive() for each in (stays, again)]
    print(f"in init_rpc after 15 s: the process that stayed {hang[0]}, the one that was started again {hang[1]}")
    for process in (stays, again):
        process.kill()
    sys.exit(10 if all(hang) and ends.exitcode == 0 else any([ends.exitcode, *hang]))
