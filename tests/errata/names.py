"""Errata S0.1, S0.6, S0.15, S0.17, S2.22, S2.23, S4.1 and S4.2: names that a listing uses and does not have."""

from __future__ import annotations

from functools import partial

import torch.distributed.rpc as rpc
from torch import nn

from tests.errata.listings import outcomes_of, shows

# By number and missing name the line of the listing that wants it.
MISSING = {
    "S0.1": {"torch": 'rpc.rpc_sync("worker1", torch.add, args=(torch.tensor(2), 3))'},
    "S0.6": {
        "os": 'os.environ["MASTER_ADDR"] = "localhost"',
        "torch": "self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=1e-2)",
    },
    "S0.15": {"mp": "mp.spawn(run_worker, args=(2,), nprocs=2, join=True)", "optim": "optim.SGD"},
    "S0.17": {"_remote_method": "_remote_method(EmbeddingTable.forward, self.emb_table_rref, input)"},
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

for number, lines in MISSING.items():
    known = {name: value for name, value in KNOWN.items() if name not in lines}
    runs = [partial(exec, line, dict(known)) for line in lines.values()]
    shows(number, gives=[f"NameError: name '{name}' is not defined" for name in lines], here=True)(
        partial(outcomes_of, *runs)
    )
