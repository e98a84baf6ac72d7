"""Map and reduce: mappers count words and add to one reducer; the master checks the result.

python word_count.py
"""

import os
import socket
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

NAMES = ["master", "mapper1", "mapper2", "reducer"]
TEXTS = ["the quick brown fox", "jumps over the lazy dog", "the end of the fox", "and of the lazy dog"]

totals = Counter()
lock = threading.Lock()


def add(counts):
    with lock:
        totals.update(counts)


def result():
    with lock:
        return dict(totals)


def map_text(text):
    rpc.rpc_sync("reducer", add, args=(dict(Counter(text.split())),))


def note(message):
    print(message, flush=True)


def init(rank):
    options = rpc.TensorPipeRpcBackendOptions(rpc_timeout=3)
    rpc.init_rpc(NAMES[rank], rank=rank, world_size=len(NAMES), rpc_backend_options=options)


def serve(rank):
    init(rank)
    rpc.shutdown()


def main():
    workers = [mp.Process(target=serve, args=(rank,), daemon=True) for rank in range(1, len(NAMES))]
    for w in workers:
        w.start()
    init(0)
    with ThreadPoolExecutor(max_workers=2) as pool:
        jobs = [pool.submit(rpc.rpc_sync, f"mapper{i % 2 + 1}", map_text, args=(t,)) for i, t in enumerate(TEXTS)]
        for job in jobs:
            job.result()
    rpc.rpc_async("reducer", note, args=("all texts are mapped",))
    expected = Counter(" ".join(TEXTS).split())
    try:
        found = rpc.rpc_sync("reducer", result)
    except RuntimeError as e:
        print(f"no result: {e}", file=sys.stderr)
        sys.exit(2)
    if found != expected:
        print(f"wrong result: {sum(found.values())} words, not {sum(expected.values())}", file=sys.stderr)
        sys.exit(1)
    print(f"{sum(found.values())} words, {found['the']} times 'the'", flush=True)
    rpc.shutdown()
    for w in workers:
        w.join()


if __name__ == "__main__":
    with socket.socket() as s:
        s.bind(("localhost", 0))
        os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=str(s.getsockname()[1]))
    main()
