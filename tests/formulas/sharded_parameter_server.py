"""The trace of ``sharded_parameter_server``, which is that of one server; and which server holds which tensor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.formulas import batch_parameter_server
from tests.formulas.common import Tensors


def trace(case: Any, given: Tensors) -> Tensors:
    """Train on one server: no step of SGD looks at two tensors, so the number of servers decides nothing."""
    return batch_parameter_server.trace(case, given)


def owners(sizes: Mapping[str, int], servers: int) -> dict[str, int]:
    """Deal tensors out, the largest first, of equals by name: to the server that holds least, of equals the first."""
    load = [(0, server) for server in range(servers)]
    found = {}
    for size, name in sorted((-size, name) for name, size in sizes.items()):
        load.sort()
        held, server = load[0]
        load[0] = held - size, server
        found[name] = server
    return found
