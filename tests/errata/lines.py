"""Errata that a line or two of a listing show: by a name that the listing does not have, or by the error of a call."""

from __future__ import annotations

from functools import partial

import gymnasium
import torch
import torch.distributed.rpc as rpc
from torch import nn

from tests.errata.listings import execute, outcomes_of, shows

# By number and missing name the line of the listing that wants it.
MISSING = {
    "S0.1": {"torch": 'rpc.rpc_sync("worker1", torch.add, args=(torch.tensor(2), 3))'},
    "S0.6": {
        "os": 'os.environ["MASTER_ADDR"] = "localhost"',
        "torch": "self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=1e-2)",
    },
    "S0.9": {"_call_method": 'rpc.rpc_sync("agent", _call_method)'},
    "S0.15": {"mp": "mp.spawn(run_worker, args=(2,), nprocs=2, join=True)", "optim": "optim.SGD"},
    "S0.17": {"_remote_method": "_remote_method(EmbeddingTable.forward, self.emb_table_rref, input)"},
    "S1.7": {"global_ps_rref": "def run_ps():\n    global_ps_rref = None\nrun_ps()\nglobal_ps_rref"},
    "S2.22": {
        "torch": "torch.manual_seed(543)",
        "os": 'os.environ["MASTER_ADDR"] = "localhost"',
        "time": "time.time()",
        "mp": "mp.spawn(run_worker, args=(2,), nprocs=2, join=True)",
        "optim": "optim.Adam",
    },
    "S2.23": {"AGENT_NAME": "AGENT_NAME", "OBSERVER_NAME": "OBSERVER_NAME.format(1)", "NUM_STEPS": "NUM_STEPS"},
    "S4.1": {"rpc": "rpc.remote(workers[0], ResNetShard1)"},
    "S4.2": {"RRef": "[RRef(p) for p in self.parameters()]"},
}
# What the other listings do have.
KNOWN = {"rpc": rpc, "self": nn.Linear(1, 1)}

# By number the lines, and type and text of their error.
FAILING = {
    "0.8": ('torch.from_numpy(gymnasium.make("CartPole-v1").reset())', "TypeError", "expected np.ndarray (got tuple)"),
    "S0.2": (
        'rpc.rpc_sync("dest_worker", torch.add, args=(torch.tensor(2), 3))',
        "RuntimeError",
        "RPC has not been initialized. Call torch.distributed.rpc.init_rpc first.",
    ),
    "S0.16": (
        "nn.LSTM(2, 3, 4).parameter_rrefs()",
        "AttributeError",
        "'LSTM' object has no attribute 'parameter_rrefs'",
    ),
    "S0.18": (
        "from torch.distributed.autograd import context as dist_autograd\ndist_autograd.context()",
        "AttributeError",
        "type object 'context' has no attribute 'context'",
    ),
    "S1.1": (
        "class ParameterServer(object):\ndef __init__(self):\nself.model = None\n",
        "IndentationError",
        "expected an indented block after class definition on line 1 (listing, line 2)",
    ),
    "S1.2": ("rpc.Backend.TENSORPIPE", "AttributeError", "module 'torch.distributed.rpc' has no attribute 'Backend'"),
    "S1.3": (
        'rpc.init_rpc(name="ps", rank=0, world_size=1, rpc_backend=rpc.BackendType.TENSORPIPE)',
        "TypeError",
        "init_rpc() got an unexpected keyword argument 'rpc_backend'",
    ),
    "S2.20": (
        "def main():\n    for world_size in range(2, 12)\uff1a\n        pass\n",
        "SyntaxError",
        "invalid character '\uff1a' (U+FF1A) (listing, line 2)",
    ),
    "S2.21": (
        "class Agent:\n    def __init__(self, world_size, batch=True): ...\n"
        "class Agent:\n    def run_episode(self, n_steps=0): ...\n"
        "Agent(2, True)",
        "TypeError",
        "Agent() takes no arguments",
    ),
    "S2.24": (
        'gymnasium.make("CartPole-v1").seed(543)',
        "AttributeError",
        "'TimeLimit' object has no attribute 'seed'",
    ),
    # The strides of ResNet50 reduce 32 pixels to one.
    "S4.7": (
        "nn.Sequential(nn.Conv2d(3, 512, 1, stride=32), nn.BatchNorm2d(512))(torch.zeros(1, 3, 32, 32))",
        "ValueError",
        "Expected more than 1 value per channel when training, got input size torch.Size([1, 512, 1, 1])",
    ),
}

for number, lines in MISSING.items():
    known = {name: value for name, value in KNOWN.items() if name not in lines}
    runs = [partial(exec, line, dict(known)) for line in lines.values()]
    shows(number, gives=[f"NameError: name '{name}' is not defined" for name in lines], here=True)(
        partial(outcomes_of, *runs)
    )
for number, (text, kind, said) in FAILING.items():
    shows(number, raises=(kind, said), here=True)(
        partial(execute, text, rpc=rpc, torch=torch, nn=nn, gymnasium=gymnasium)
    )
