"""A controller gives work to a worker, which it starts. When the controller is gone, the worker tries for a while.

python controller.py SECONDS
"""

import subprocess
import sys
import tempfile
import time

import torch.distributed.rpc as rpc


def more(number):
    return number + 1


def play(name, place):
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{place}", rpc_timeout=5)
    rpc.init_rpc(name, rank=int(name == "worker"), world_size=2, rpc_backend_options=options)


def work(place, seconds):
    play("worker", place)
    number, failed = 0, 0.0
    while number < 20:
        try:
            number = rpc.rpc_sync("controller", more, args=(number,))
        except RuntimeError:
            failed = failed or time.monotonic()
            if time.monotonic() - failed > seconds:
                rpc.shutdown(graceful=False)  # torch's threads may abort a process that ends while they run
                sys.exit("the controller is gone")
            time.sleep(0.1)
    rpc.shutdown()


if __name__ == "__main__":
    if len(sys.argv) == 3:
        work(sys.argv[1], float(sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            worker = subprocess.Popen([sys.executable, __file__, f"{folder}/place", sys.argv[1]])
            play("controller", f"{folder}/place")
            rpc.shutdown()
            sys.exit(worker.wait())
