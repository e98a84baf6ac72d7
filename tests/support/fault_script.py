"""A user's script: two worlds of one role, one after the other, in one process. It took its names before any hook.

Run as ``python -m tests.support.fault_script FOLDER``; prints one JSON line.
"""

from __future__ import annotations

import json
import sys
import threading

from torch.distributed.rpc import TensorPipeRpcBackendOptions, init_rpc, remote, rpc_sync, shutdown

from faults import hook
from reference.world.rpc_agent import listen_on_loopback, silence_upstream

ran: list[int] = []


def pay(x: int) -> int:
    ran.append(x)
    return x + 1


def world(folder: str, number: int) -> list[object]:
    options = TensorPipeRpcBackendOptions(_transports=["uv"], init_method=f"file://{folder}/rendezvous{number}")
    init_rpc("only", rank=0, world_size=1, rpc_backend_options=options)
    found: list[object] = []
    for x in (1, 2, 3):
        try:
            found.append(rpc_sync("only", pay, args=(x,), timeout=0.2))
        except Exception as error:
            found.append(type(error).__name__)
    found.append(remote("only", pay, args=(4,)).to_here())
    shutdown()
    return found


def main() -> None:
    folder = sys.argv[1]
    listen_on_loopback()
    silence_upstream()
    hook.install(folder)
    first, second = world(folder, 1), world(folder, 2)
    threading.Event().wait(1.0)  # late replies of both worlds are due now, after RPC's end
    hook.remove()
    third = world(folder, 3)
    threads = [each.name for each in threading.enumerate() if each is not threading.main_thread()]
    print(json.dumps({"worlds": [first, second, third], "ran": ran, "threads": threads}))


if __name__ == "__main__":
    main()
