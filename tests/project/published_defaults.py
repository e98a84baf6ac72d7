"""The default of each field of each tutorial's case, and its source.

S0 to S4 are the published texts, by the short names of docs/errata.md. "S0 2.3" is a text's section and the listing in
it. S3, a talk, names no numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Value = int | float | str | bool
Published = Mapping[str, "Default"]


class Default(NamedTuple):
    """``where``: which text says so. ``why``: the reason, where none does, or where ``published`` is another value."""

    value: Value
    where: str = ""
    published: str = ""
    why: str = ""


def said(value: Value, where: str) -> Default:
    """Take a value as it is published."""
    return Default(value, where)


def ours(value: Value, why: str) -> Default:
    """Take a value where the texts have none."""
    return Default(value, why=why)


def instead(value: Value, published: str, where: str, why: str) -> Default:
    """Differ from a text on purpose."""
    return Default(value, where, published, why)


_COMMON: Published = {
    "seed": ours(0, "the texts draw from an unseeded generator"),
    "record": ours("every", "the twin is held against every tensor"),
    "timeout": ours(60.0, "torch's own limit for a call, which the texts keep"),
}
_FLOAT32 = ours("float32", "torch's own, which the texts keep")
_NATURAL = ours("natural", "the texts compute in ordinary floating point")
_UNSIZED = "S3 names no sizes"

RPC_BASICS: Published = {
    **_COMMON,
    "steps": said(1, "S0 1: each call is made once"),
    "size": said(3, "S0 1.2: rpc.remote(…, torch.randn, args=(3, 3))"),
}

RREF_DATAFLOW: Published = {
    **_COMMON,
    "steps": ours(3, "S3 says nothing of repetition; several, so that each step's counts are seen to be its own"),
    "side": ours(512, f"{_UNSIZED}; 1 MiB is far more than RPC's own messages, which are counted with it"),
}

DIST_AUTOGRAD: Published = {
    **_COMMON,
    "steps": ours(5, _UNSIZED),
    "side": ours(3, f"{_UNSIZED}; that of S0 1.2"),
    "contexts": ours(2, "S3: several contexts at once; the fewest"),
    "lr": ours(0.05, "S3 names SGD without a rate; that of S0 3.2 and S4 3"),
    "dtype": _FLOAT32,
    "arithmetic": _NATURAL,
}

PARAMETER_SERVER: Published = {
    **_COMMON,
    "steps": instead(100, "1", "S1 2: run_worker sends once", "one update trains nothing (S1.15)"),
    "workers": said(1, "S1 2: WORLD_SIZE = 2, one of them the server"),
    "batch_size": said(5, "S1 2: torch.randn(5, 10)"),
    "inputs": said(10, "S1 2: nn.Linear(10, 1)"),
    "outputs": said(1, "S1 2: nn.Linear(10, 1)"),
    "lr": said(0.01, "S1 2: optim.SGD(…, lr=0.01)"),
    "staleness": instead(1, "0", "S1 2: future.wait()", "S1 3 describes workers that compute on meanwhile"),
    "dtype": _FLOAT32,
    "arithmetic": _NATURAL,
    "device": said("cpu", "S1 2: no model is moved"),
}

_CUDA = "machines without a GPU (0.6)"

BATCH_PARAMETER_SERVER: Published = {
    **_COMMON,
    "steps": said(6, "S2 server: for _ in range(6)"),
    "trainers": said(5, "S2 server: batch_update_size = 5"),
    "model": said("resnet50", "S2 server: torchvision.models.resnet50"),
    "batch_size": said(20, "S2 server: batch_size = 20"),
    "image_w": said(64, "S2 server: image_w = 64"),
    "image_h": said(64, "S2 server: image_h = 64"),
    "num_classes": said(30, "S2 server: num_classes = 30"),
    "lr": said(0.001, "S2 server: optim.SGD(…, lr=0.001)"),
    "momentum": said(0.9, "S2 server: optim.SGD(…, momentum=0.9)"),
    "accumulation": instead("rank", "arrival", "S2 server: p.grad += g", "runs can be repeated (S2.9)"),
    "dtype": _FLOAT32,
    "arithmetic": _NATURAL,
    "device": instead("cpu", "cuda", "S2 server: .cuda()", _CUDA),
}

SHARDED_PARAMETER_SERVER: Published = {
    **BATCH_PARAMETER_SERVER,
    "steps": ours(3, f"{_UNSIZED}; few, because a round of ResNet50 takes seconds"),
    "servers": ours(2, "S3: several sharded servers; the fewest"),
    "trainers": ours(3, "S3: several trainers; the fewest whose order of sums decides bits"),
    "batch_size": ours(4, f"{_UNSIZED}; few, because a round of ResNet50 takes seconds"),
    "accumulation": ours("rank", "each server would have an order of arrival of its own"),
}

_CARTPOLE: Published = {
    "lr": said(0.01, "S0 2.2, S2 CartPole: optim.Adam(…, lr=1e-2)"),
    "env": said("CartPole-v1", "S0 2.2, S2 CartPole: gym.make('CartPole-v1')"),
    "dropout": said(0.6, "S0 2.1, S2 CartPole: nn.Dropout(p=0.6)"),
    "dtype": _FLOAT32,
}

REINFORCE: Published = {
    **_COMMON,
    **_CARTPOLE,
    "steps": said(100, "S0 2.3: for episode in range(100)"),
    "observers": said(1, "S0 2.3: two processes, one of them the agent"),
    "n_steps": instead(500, "10", "S0 2.3: run_episode(n_steps=10)", "the pole stands longer than 10 steps (S0.13)"),
    "gamma": ours(0.99, "S0 discounts nothing (S0.8); that of the upstream example, rl/main.py"),
}

BATCH_REINFORCE: Published = {
    **_COMMON,
    **_CARTPOLE,
    "seed": said(543, "S2 CartPole: --seed"),
    "steps": said(10, "S2 CartPole: --num-episode"),
    "observers": instead(2, "1 to 10", "S2 CartPole: range(2, 12)", "a case has one number; 2 make a batch"),
    "batch": instead(True, "both", "S2 CartPole: for batch in [True, False]", "the subject of the text"),
    "n_steps": ours(500, "NUM_STEPS is used and not defined (S2.23); that of the upstream example"),
    "gamma": said(1.0, "S2 CartPole: --gamma"),
}

RNN: Published = {
    **_COMMON,
    "steps": said(50, "S0 3.2: 10 epochs of 5 batches"),
    "batches": said(5, "S0 3.2: for _ in range(5)"),
    "text": ours("", "S0 3.2 reads uninitialised memory (S0.19); empty is the text that is shipped"),
    "text_sha256": ours("fd22aed122633fdb14ccda992abe157e3b8f49307cd17db3f35d2a6f65f6db22", "of the text shipped"),
    "sequence": said(5, "S0 3.2: torch.LongTensor(5, 3)"),
    "batch_size": said(3, "S0 3.2: torch.LongTensor(5, 3)"),
    "ninp": said(2, "S0 3.2: ninp=2"),
    "nhid": said(3, "S0 3.2: nhid=3"),
    "nlayers": said(4, "S0 3.2: nlayers=4"),
    "dropout": said(0.5, "S0 3.1: dropout=0.5"),
    "lr": said(0.05, "S0 3.2: DistributedOptimizer(optim.SGD, …, lr=0.05)"),
    "dtype": _FLOAT32,
}

PIPELINE: Published = {
    **_COMMON,
    "steps": said(3, "S4 3: num_batches = 3"),
    "num_split": instead(4, "1, 2, 4, 8", "S4 4: for num_split in …", "a case has one number"),
    "model": said("resnet50", "S4 1: ResNetShard1 and ResNetShard2"),
    "batch_size": said(120, "S4 3: batch_size = 120"),
    "image_w": said(128, "S4 3: image_w = 128"),
    "image_h": said(128, "S4 3: image_h = 128"),
    "num_classes": said(1000, "S4 1: num_classes = 1000"),
    "depth": ours(1, "S4 has no mlp; the smallest"),
    "width": ours(8, "S4 has no mlp; as many units as that of batch_parameter_server"),
    "lr": said(0.05, "S4 3: DistributedOptimizer(optim.SGD, …, lr=0.05)"),
    "rpc_threads": said(128, "S4 4: num_worker_threads=128"),
    "dtype": _FLOAT32,
    "arithmetic": _NATURAL,
    "device": instead("cpu", "cuda:0 and cuda:1", "S4 2: rpc.remote(…, args=('cuda:0',))", _CUDA),
    "transfer": said("cpu", "S4 1: return out.cpu()"),
}

HYBRID_DDP: Published = {
    **_COMMON,
    "steps": ours(20, _UNSIZED),
    "trainers": ours(2, "S3: data parallel; the fewest"),
    "rows": ours(100, _UNSIZED),
    "dim": ours(16, _UNSIZED),
    "hidden": ours(16, _UNSIZED),
    "num_classes": ours(8, _UNSIZED),
    "batch_size": ours(32, _UNSIZED),
    "bag": ours(5, _UNSIZED),
    "lr": ours(0.05, "S3 names no rate; that of S0 3.2 and S4 3"),
    "accumulation": ours("rank", "DDP's own order gives equal bits with two trainers only"),
    "dtype": _FLOAT32,
    "arithmetic": _NATURAL,
}

PUBLISHED: Mapping[str, Published] = {
    "rpc_basics": RPC_BASICS,
    "rref_dataflow": RREF_DATAFLOW,
    "dist_autograd": DIST_AUTOGRAD,
    "parameter_server": PARAMETER_SERVER,
    "batch_parameter_server": BATCH_PARAMETER_SERVER,
    "sharded_parameter_server": SHARDED_PARAMETER_SERVER,
    "reinforce": REINFORCE,
    "batch_reinforce": BATCH_REINFORCE,
    "rnn": RNN,
    "pipeline": PIPELINE,
    "hybrid_ddp": HYBRID_DDP,
}
