"""Starts two processes by multiprocessing, which import torch themselves, and does not read their statuses."""

import multiprocessing
import sys
import tempfile


def play(name, place, end):
    import torch.distributed.rpc as rpc

    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{place}", rpc_timeout=20)
    rpc.init_rpc(name, rank=int(name == "till"), world_size=2, rpc_backend_options=options)
    rpc.shutdown()
    if name == "till" and end == "raise":
        raise AssertionError("lost")
    if name == "till" and end == "exit":
        sys.exit(3)


if __name__ == "__main__":
    method, _, end = sys.argv[1].partition("-")
    context = multiprocessing.get_context(method)
    with tempfile.TemporaryDirectory() as folder:
        started = [context.Process(target=play, args=(name, f"{folder}/store", end)) for name in ("shop", "till")]
        for process in started:
            process.start()
        for process in started:
            process.join()
