"""The trace of ``sharded_parameter_server``, which is that of one server; and the placement of tensors on servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.formulas import batch_parameter_server
from tests.formulas.common import Tensors


def trace(case: Any, given: Tensors) -> Tensors:
    """Train on one server: SGD updates each tensor by itself, so the number of servers decides nothing."""
    return batch_parameter_server.trace(case, given)


def owners(sizes: Mapping[str, int], servers: int) -> dict[str, int]:
    """Place tensors, the largest first, equal ones by name: each on the first server that holds least."""
    load = [(0, server) for server in range(servers)]
    found = {}
    for size, name in sorted((-size, name) for name, size in sizes.items()):
        load.sort()
        held, server = load[0]
        load[0] = held - size, server
        found[name] = server
    return found
