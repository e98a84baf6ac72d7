"""Starts two processes, which import torch themselves, and does not read their statuses.

python ends.py popen | fork | spawn HOW, which is how the second one ends
"""

import asyncio
import multiprocessing
import os
import subprocess
import sys
import tempfile


def add(x, y):
    return x + y


class Native:
    """An object like one of a library that crashes when it is freed."""

    def __del__(self, crash=os.abort):
        crash()


def end(how):
    if how == "system-exit":
        raise SystemExit(3)
    if how == "hook":
        sys.excepthook = lambda *error: None
        raise AssertionError("nobody is told")
    if how == "cancelled":
        raise asyncio.CancelledError
    if how == "destructor":
        globals()["native"] = Native()
    if how == "another-program":
        os.execvp("true", ["true"])


def play(name, place, how):
    import torch.distributed.rpc as rpc

    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{place}", rpc_timeout=20)
    rpc.init_rpc(name, rank=int(name == "till"), world_size=2, rpc_backend_options=options)
    if name == "till":
        print(rpc.rpc_sync("shop", add, args=(1, 2)))
    rpc.shutdown()
    if name == "till":
        end(how)


def by_popen(place, how):
    names = ["shop", "till"] if how != "unreached" else ["shop"]
    clean = {name: value for name, value in os.environ.items() if name not in ("FAULTS_RUN", "PYTHONPATH")}
    started = [subprocess.Popen([sys.executable, __file__, how, name, place]) for name in names]
    if how == "unreached":
        started.append(subprocess.Popen([sys.executable, "-S", "-c", SITE, __file__, how, "till", place], env=clean))
    for process in started:
        process.wait()


def by_multiprocessing(method, place, how):
    context = multiprocessing.get_context(method)
    started = [context.Process(target=play, args=(name, place, how)) for name in ("shop", "till")]
    for process in started:
        process.start()
    for process in started:
        process.join()


# A Python that looks at no site's `.pth` files, so that no plan reaches it wherever this is installed.
SITE = f"import sys; sys.path[:] = {sys.path!r}; sys.argv.pop(0); exec(open(sys.argv[0]).read())"

if __name__ == "__main__":
    if len(sys.argv) > 3:
        play(sys.argv[2], sys.argv[3], sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            place = f"{folder}/rendezvous"
            if sys.argv[1] == "popen":
                by_popen(place, sys.argv[2])
            else:
                by_multiprocessing(sys.argv[1], place, sys.argv[2])
