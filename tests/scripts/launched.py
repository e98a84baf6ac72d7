"""A shop that serves until it is ended, and a till; the launcher imports no torch. Knows nothing of faults.

python launched.py interrupt | abort | outlives | twice
"""

import os
import select
import signal
import subprocess
import sys
import tempfile
import time


def pay(amount):
    if sys.argv[1] == "abort" and amount == 3:
        os.abort()
    return amount


def play(how, name, place):
    import torch.distributed.rpc as rpc

    launcher = os.pidfd_open(os.getppid())
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{place}", rpc_timeout=5)
    rpc.init_rpc(name, rank=int(name == "till"), world_size=2, rpc_backend_options=options)
    if name == "shop" and how == "outlives":
        select.select([launcher], [], [])  # until it has ended
        time.sleep(0.3)
        os._exit(0)
    if name == "shop" and how != "twice":
        while True:
            time.sleep(1)
    for amount in range(1, 5):
        try:
            assert name == "shop" or rpc.rpc_sync("shop", pay, args=(amount,)) == amount
        except RuntimeError as error:
            print(f"not paid {amount}: {str(error)[:24]}")
    rpc.shutdown(graceful=how == "twice")
    if how == "twice" and place.endswith("first"):
        time.sleep(3)


def end(how, shop):
    if how == "interrupt":
        shop.send_signal(signal.SIGINT)
    else:
        shop.terminate()
    shop.wait()


def start(how, place):
    command = [sys.executable, __file__, how]
    return [subprocess.Popen([*command, name, place]) for name in ("shop", "till")]


def main(how):
    with tempfile.TemporaryDirectory() as folder:
        if how == "twice":
            both = [each for name in ("first", "second") for each in start(how, f"{folder}/{name}")]
            assert [each.wait() for each in both] == [0] * 4
            return
        shop, till = start(how, f"{folder}/place")
        till.wait()
        if how != "outlives":
            end(how, shop)


if __name__ == "__main__":
    main(sys.argv[1]) if len(sys.argv) == 2 else play(*sys.argv[1:])
