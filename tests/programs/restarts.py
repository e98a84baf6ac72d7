"""A launcher that starts its workers again when one dies. They go on from a file.

python restarts.py
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed.rpc as rpc

ROLES = ["store", "worker"]
ITEMS, STARTS = 8, 4

totals = torch.zeros(())


def add(square):
    totals.add_(square)
    return totals.clone()


def load(total):
    totals.copy_(total)


def work(state):
    """Add squares, and note after each how far this has come. The store begins with what was noted last."""
    done, total = json.loads(state.read_text())
    rpc.rpc_sync("store", load, args=(torch.tensor(total),))
    for item in range(done, ITEMS):
        total = rpc.rpc_sync("store", add, args=(torch.tensor(float(item**2)),)).item()
        new = state.with_suffix(".new")
        new.write_text(json.dumps([item + 1, total]))
        new.replace(state)


def run(rank, meeting, state):
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{meeting}", rpc_timeout=3)
    rpc.init_rpc(ROLES[rank], rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 1:
        work(state)
    rpc.shutdown()


def start(folder, attempt):
    """Start both roles, and wait until both have ended, or one has failed. Return whether both have done their work."""
    meeting, state = folder / f"meeting{attempt}", folder / "state.json"
    command = [sys.executable, __file__, str(meeting), str(state)]
    processes = [subprocess.Popen([*command, str(rank)]) for rank in range(2)]
    while processes:
        pid, status = os.wait()
        ended = next(each for each in processes if each.pid == pid)
        ended.returncode = os.waitstatus_to_exitcode(status)
        processes.remove(ended)
        if status != 0:
            for each in processes:
                each.kill()
                each.wait()
            return False
    return True


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "state.json").write_text("[0, 0.0]")
        for attempt in range(1, STARTS + 1):
            if start(folder, attempt):
                print(f"total {json.loads((folder / 'state.json').read_text())[1]:g}", flush=True)
                return 0
            print(f"start {attempt} of {STARTS} failed", file=sys.stderr, flush=True)
    return 1


if __name__ == "__main__":
    if len(sys.argv) == 4:
        run(int(sys.argv[3]), sys.argv[1], Path(sys.argv[2]))
    else:
        sys.exit(main())
