"""Say where is computed and kept: a role's device, a twin's one thread, each tensor's server.

The server of a tensor follows from names and sizes, by a rule that is the same in every process.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import nn


def device_in_turn(kind: str, rank: int) -> torch.device:
    """Return the CPU, or with ``kind`` cuda the GPU number ``rank`` (from 0), modulo the GPUs of this machine.

    With a GPU this process now computes float32 in float32, where convolutions are TF32 by default, and by kernels that
    give the same bits each time.

    Raises:
        RuntimeError: this machine has no GPU.
    """
    if kind == "cpu":
        return torch.device("cpu")
    if not torch.cuda.device_count():
        raise RuntimeError(f"device {kind!r} is not available on this machine, wanted 'cpu'")
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.deterministic = True
    return torch.device("cuda", rank % torch.cuda.device_count())


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread in a block, or in a function decorated by ``@one_thread()``; then restore the former number."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def shards(sizes: Mapping[str, int], servers: int) -> list[list[str]]:
    """Choose the names for each of ``servers``, in the order of ``sizes`` (name to number of elements, not 0).

    The rule takes tensors from the largest to the smallest, equal ones by name. Each goes to the server with the fewest
    elements so far, or to the first of several. So no server stays empty if there are enough tensors.

    Raises:
        ValueError: there are fewer tensors than servers, or no server.
    """
    if not 0 < servers <= len(sizes):
        raise ValueError(f"{servers} servers, wanted 1 to {len(sizes)}: each needs at least one tensor")
    held, owner = [0] * servers, {}
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        owner[name] = held.index(min(held))
        held[owner[name]] += sizes[name]
    return [[name for name in sizes if owner[name] == server] for server in range(servers)]


def partition(model: nn.Module, servers: int) -> list[list[str]]:
    """Choose each server's parameters by `shards`, and the buffers of their modules, in the model's order.

    A buffer goes with its module's first parameter; a buffer of a module without parameters goes to the first server.
    """
    parts = shards({name: parameter.numel() for name, parameter in model.named_parameters()}, servers)
    of_module: dict[str, list[str]] = {}
    first = {name.rpartition(".")[0]: name for name, _ in reversed(list(model.named_parameters()))}
    for name, _ in model.named_buffers():
        of_module.setdefault(first.get(name.rpartition(".")[0], ""), []).append(name)
    for server, part in enumerate(parts):
        modules_of = [*part, ""] if server == 0 else list(part)
        part += [buffer for name in modules_of for buffer in of_module.get(name, ())]
    return parts


def only(model: nn.Module, names: Collection[str]) -> nn.Module:
    """Copy only these parameters and buffers of a model, under their names; the copy cannot compute."""
    part = copy.deepcopy(model)
    for prefix, module in part.named_modules():
        for tensors in (module._parameters, module._buffers):
            for name in tensors:
                if f"{prefix}.{name}".lstrip(".") not in names:
                    tensors[name] = None
    return part
