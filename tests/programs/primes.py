"""Counts primes on two workers, and puts up with workers that are slow, wrong or gone.

python primes.py
"""

import tempfile
import threading
import time

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

WORKERS = ["worker1", "worker2"]
stop = threading.Event()


class Worker:
    def __init__(self):
        self.served = 0

    def count_primes(self, first, last):
        self.served += 1
        return sum(all(n % d for d in range(2, int(n**0.5) + 1)) for n in range(max(first, 2), last))

    def report(self):
        return self.served


def finish():
    stop.set()


def robust_count(workers, job, first, last):
    """Ask one worker after the other; if nobody answers, count here."""
    for attempt in range(2):
        worker = workers[(job + attempt) % len(workers)]
        try:
            return worker.rpc_sync(timeout=1.5).count_primes(first, last)
        except Exception as e:
            print(f"job {job}: no answer from {worker.owner_name()}: {str(e)[:60]!r}", flush=True)
    return Worker().count_primes(first, last)


def run_client():
    workers = [rpc.remote(name, Worker) for name in WORKERS]
    total = sum(robust_count(workers, job, 250 * job, 250 * (job + 1)) for job in range(4))
    print(f"there are {total} primes below 1000", flush=True)
    assert total == 168
    for worker in workers:
        try:
            print(f"{worker.owner_name()} served {worker.remote().report().to_here(timeout=1.5)} jobs", flush=True)
        except Exception as e:
            print(f"{worker.owner_name()} does not report: {str(e)[:60]!r}", flush=True)
        try:
            rpc.rpc_sync(worker.owner(), finish, timeout=1.5)
        except Exception as e:
            print(f"{worker.owner_name()} is gone: {str(e)[:60]!r}", flush=True)


def run(rank, size, folder):
    name = "client" if rank == 0 else WORKERS[rank - 1]
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{folder}/store", rpc_timeout=4)
    rpc.init_rpc(name, rank=rank, world_size=size, rpc_backend_options=options)
    if rank == 0:
        run_client()
    else:
        stop.wait(timeout=5)
    begin = time.time()
    try:
        rpc.shutdown(timeout=3)
    except Exception as e:
        print(f"{name}: shutdown failed after {time.time() - begin:.1f} s: {str(e)[:60]!r}", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        processes = [mp.Process(target=run, args=(rank, 3, folder)) for rank in range(3)]
        for p in processes:
            p.start()
        for p in processes:
            p.join()
