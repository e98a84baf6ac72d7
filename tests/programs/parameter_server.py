"""Two trainers fit a line with one parameter server. All timeouts are torch's own. They meet in a file.

python parameter_server.py
"""

import tempfile
from threading import Lock

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F

NUM_STEPS = 5
LR = 0.1
WORLD_SIZE = 3

# The global parameter server instance, and a lock so that there is only one.
param_server = None
global_lock = Lock()


class ParameterServer(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.model = nn.Linear(4, 1)
        self.updates = 0
        self.lock = Lock()

    def get_weights(self):
        with self.lock:
            return {name: value.clone() for name, value in self.model.state_dict().items()}

    def push_gradients(self, grads):
        with self.lock, torch.no_grad():
            for param, grad in zip(self.model.parameters(), grads, strict=True):
                param -= LR * grad
            self.updates += 1
            return self.updates


def get_parameter_server():
    global param_server
    with global_lock:
        if param_server is None:
            param_server = ParameterServer()
        return param_server


def call_method(method, rref, *args):
    return method(rref.local_value(), *args)


def remote_method(method, rref, *args):
    return rpc.rpc_sync(rref.owner(), call_method, args=(method, rref, *args))


def run_training_loop(rank):
    torch.manual_seed(rank)
    ps_rref = rpc.remote("parameter_server", get_parameter_server)
    net = nn.Linear(4, 1)
    for step in range(NUM_STEPS):
        net.load_state_dict(remote_method(ParameterServer.get_weights, ps_rref))
        data = torch.randn(16, 4)
        loss = F.mse_loss(net(data), data.sum(1, keepdim=True))
        net.zero_grad()
        loss.backward()
        grads = [param.grad for param in net.parameters()]
        updates = remote_method(ParameterServer.push_gradients, ps_rref, grads)
        print(f"trainer {rank} step {step}: loss {loss.item():.3f}, {updates} updates", flush=True)


def init(name, rank, world_size, folder):
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{folder}/store")
    rpc.init_rpc(name, rank=rank, world_size=world_size, rpc_backend_options=options)


def run_parameter_server(rank, world_size, folder):
    init("parameter_server", rank, world_size, folder)
    print("RPC initialized! Running parameter server...", flush=True)
    rpc.shutdown()
    print("RPC shutdown on parameter server.", flush=True)


def run_worker(rank, world_size, folder):
    init(f"trainer_{rank}", rank, world_size, folder)
    try:
        run_training_loop(rank)
    finally:
        rpc.shutdown()
    print("Training complete!", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        processes = []
        for rank in range(WORLD_SIZE):
            target = run_parameter_server if rank == 0 else run_worker
            p = mp.Process(target=target, args=(rank, WORLD_SIZE, folder))
            p.start()
            processes.append(p)
        for p in processes:
            p.join()
