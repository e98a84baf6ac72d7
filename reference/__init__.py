"""The tutorials of torch.distributed.rpc as code that trains, each with a twin that checks it."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

# Each tutorial's name (the stem of its module) and what it shows, in the order in which to read them.
TUTORIALS: dict[str, str] = {
    "rpc_basics": "remote calls and their exceptions, to a peer and to oneself (seeds 000 and 003)",
    "rref_dataflow": "data flows between workers by passing RRefs, never through the coordinator (seed 003)",
    "dist_autograd": "a backward pass and an optimizer over remote parameters (seed 003)",
    "parameter_server": "workers that train asynchronously against one server (seed 001)",
    "batch_parameter_server": "one update per round from all trainers' gradients, with batched replies (seed 002)",
    "sharded_parameter_server": "parameters spread over several servers, fetched and pushed by shard (seed 003)",
    "reinforce": "CartPole: one agent learns a policy from several observers' episodes (seed 000)",
    "batch_reinforce": "CartPole: one agent, with or without batching its forward passes over observers (seed 002)",
    "rnn": "a language model with its embedding and decoder on one worker and its LSTM on another (seed 000)",
    "pipeline": "ResNet50 in two shards on two workers, fed with micro-batches (seed 004)",
    "hybrid_ddp": "a parameter server for the sparse part, DDP for the dense part (seed 003)",
}


def load(name: str) -> ModuleType:
    """Import a tutorial's module, which has `Case`, `roles` and `train_locally`. Raises KeyError: no such tutorial."""
    if name not in TUTORIALS:
        raise KeyError(name)
    return import_module(f"{__name__}.{name}")
