"""Trains with a batch server, takes RPC down, and evaluates in a second world of the same processes.

python two_phases.py
"""

import logging
import tempfile
import threading

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

WORLD_SIZE = 3
STEPS = 4
log = logging.getLogger("two_phases")


class BatchServer:
    """Answers all trainers of a step at once, when the last one's gradient is there."""

    def __init__(self, trainers):
        self.trainers = trainers
        self.weights = torch.zeros(3)
        self.grads = []
        self.lock = threading.Lock()
        self.future = torch.futures.Future()

    @staticmethod
    @rpc.functions.async_execution
    def update(server_rref, grad):
        self = server_rref.local_value()
        with self.lock:
            self.grads.append(grad)
            fut = self.future
            if len(self.grads) == self.trainers:
                self.weights = self.weights - 0.5 * sum(self.grads) / self.trainers
                self.grads = []
                self.future = torch.futures.Future()
                fut.set_result(self.weights)
        return fut


def train(server_rref, rank):
    target = torch.tensor([1.0, 2.0, 3.0])
    weights = torch.zeros(3)
    for step in range(STEPS):
        grad = weights - target
        fut = rpc.rpc_async(server_rref.owner(), BatchServer.update, args=(server_rref, grad))
        weights = fut.then(lambda fut: fut.value().clone()).wait()
        log.info("trainer %d step %d", rank, step + 1, extra={"step": step + 1})
    return weights


def evaluate(weights):
    return float((weights - torch.tensor([1.0, 2.0, 3.0])).square().sum())


def start(phase, rank, folder):
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{folder}/{phase}", rpc_timeout=3)
    rpc.init_rpc(f"{phase}{rank}", rank=rank, world_size=WORLD_SIZE, rpc_backend_options=options)


def run(rank, folder):
    start("train", rank, folder)
    if rank == 0:
        server = rpc.RRef(BatchServer(WORLD_SIZE - 1))
        futs = [rpc.rpc_async(f"train{r}", train, args=(server, r)) for r in range(1, WORLD_SIZE)]
        weights = torch.futures.collect_all(futs).then(lambda done: [f.value() for f in done.value()]).wait()[0]
    rpc.shutdown()

    start("eval", rank, folder)
    if rank == 0:
        losses = [rpc.rpc_async(f"eval{r}", evaluate, args=(weights,)) for r in range(1, WORLD_SIZE)]
        mean = sum(fut.wait() for fut in losses) / len(losses)
        log.info("loss after training: %.4f", mean)
        if mean > 0.1:
            raise RuntimeError(f"not trained: the loss is {mean}")
    rpc.shutdown()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(run, args=(folder,), nprocs=WORLD_SIZE, start_method="fork")
