"""Place each tensor of a model on one of several servers: a rule on names and sizes, the same in every process."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping

from torch import nn


def shards(sizes: Mapping[str, int], servers: int) -> list[list[str]]:
    """The names that each of ``servers`` holds, in the order of ``sizes`` (name to number of elements, not 0).

    The largest tensor first, of equal ones the one whose name sorts first: each goes to the server that holds the
    fewest elements so far, of equal ones to the first. So no server stays empty while there are tensors enough.

    Raises:
        ValueError: fewer tensors than servers, or no server.
    """
    if not 0 < servers <= len(sizes):
        raise ValueError(f"{servers} servers, wanted 1 to {len(sizes)}: one tensor each at least")
    held, owner = [0] * servers, {}
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        owner[name] = held.index(min(held))
        held[owner[name]] += sizes[name]
    return [[name for name in sizes if owner[name] == server] for server in range(servers)]


def partition(model: nn.Module, servers: int) -> list[list[str]]:
    """Each server's parameters by `shards`, then their modules' buffers, in the model's order.

    A buffer lies where its module's first parameter lies; one of a module without parameters with the first server.
    """
    parts = shards({name: parameter.numel() for name, parameter in model.named_parameters()}, servers)
    of_module: dict[str, list[str]] = {}
    first = {name.rpartition(".")[0]: name for name, _ in reversed(list(model.named_parameters()))}
    for name, _ in model.named_buffers():
        of_module.setdefault(first.get(name.rpartition(".")[0], ""), []).append(name)
    for server, part in enumerate(parts):
        wanted = [*part, ""] if server == 0 else list(part)
        part += [buffer for name in wanted for buffer in of_module.get(name, ())]
    return parts


def only(model: nn.Module, names: Collection[str]) -> nn.Module:
    """A copy that has just these parameters and buffers, under their names; it cannot compute."""
    part = copy.deepcopy(model)
    for prefix, module in part.named_modules():
        for tensors in (module._parameters, module._buffers):
            for name in tensors:
                if f"{prefix}.{name}".lstrip(".") not in names:
                    tensors[name] = None
    return part
