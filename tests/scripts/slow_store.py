"""Two ranks, of which the second reaches the first one's store by a slow path: it asks for the last count too late.

python slow_store.py
"""

import os
import socket
import threading
import time
from contextlib import suppress

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

ROLES = ["ps", "trainer"]
# A rank has been counted, and asks how many calls are left: torch's command for that, and the key's prefix.
LAST = b"\x03", b"/shutdown/ACTIVE_CALLS"


def carry(source, target, hold):
    """Pass data on, each piece when ``hold`` lets it, until either end is gone."""
    with suppress(OSError):
        while data := source.recv(65536):
            hold(data)
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def connect(port):
    """The first rank may not have opened it yet."""
    due = time.monotonic() + 60
    while True:
        try:
            return socket.create_connection(("localhost", port))
        except ConnectionRefusedError:
            assert time.monotonic() < due
            time.sleep(0.01)


def serve(listener, port, first, done):
    def hold(data):
        if data.startswith(LAST[0]) and LAST[1] in data and done.wait(timeout=2):
            first.join()

    near, _ = listener.accept()
    with near, connect(port) as far:
        threading.Thread(target=carry, args=(far, near, lambda data: None), daemon=True).start()
        carry(near, far, hold)


def run(rank, port, done):
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=str(port))
    rpc.init_rpc(ROLES[rank], rank=rank, world_size=len(ROLES))
    if rank == 1:
        rpc.rpc_sync("ps", torch.add, args=(torch.ones(2), 1))
    rpc.shutdown()
    if rank == 0:
        done.set()


if __name__ == "__main__":
    with socket.socket() as s:
        s.bind(("localhost", 0))
        port = s.getsockname()[1]
    listener = socket.create_server(("localhost", 0))
    done = mp.Event()
    first = mp.Process(target=run, args=(0, port, done))
    second = mp.Process(target=run, args=(1, listener.getsockname()[1], done))
    first.start()
    second.start()
    serve(listener, port, first, done)
    second.join()
    raise SystemExit(second.exitcode)
