"""How `pytest -n 3` spreads the tests: a file goes to one worker, so its worlds start once; long ones go first."""

from __future__ import annotations

from typing import Any

import pytest

# Files of which each parametrization's first word, such as the tutorial or the program, may go to another worker.
SPLIT = (
    "tests/faults/test_programs.py",
    "tests/faults/test_script.py",
    "tests/matrix/test_matrix.py",
    "tests/reference/test_clusters.py",
    "tests/properties/test_gradients_under_loss.py",
)
# What takes longest begins first, so that no worker waits long for the other at the end.
FIRST = (
    *SPLIT,
    "tests/faults/test_network.py",
    "tests/properties/test_gradients_exact.py",
    "tests/properties/test_gradients_under_plans.py",
    "tests/reference/test_world.py",
    "tests/faults/test_calls.py",
    "tests/faults/test_messages.py",
    "tests/properties/test_gradients_natural.py",
    "tests/reference/test_batch_reinforce.py",
    "tests/faults/test_pytest_plugin.py",
    "tests/torch/test_shutdown.py",
    "tests/faults/test_sweep.py",
    "tests/reference/test_sharded_parameter_server.py",
    "tests/faults/test_runs.py",
    "tests/reference/test_barrier.py",
    "tests/reference/test_hybrid_ddp.py",
    "tests/torch/test_rref_forks.py",
    "tests/reference/test_batch_parameter_server.py",
)


def scope(nodeid: str) -> str:
    """What goes to one worker together."""
    file, _, rest = nodeid.partition("::")
    if file not in SPLIT:
        return file
    _, _, parameter = rest.partition("[")
    return f"{file}[{parameter.partition('-')[0].rstrip(']')}"


def place(item: pytest.Item) -> int:
    """Where among the tests it is to be: a key for sorting."""
    file = item.nodeid.partition("::")[0]
    return FIRST.index(file) if file in FIRST else len(FIRST)


def spreading(config: pytest.Config, log: Any) -> Any:
    """A scheduler: xdist's own, with another scope, and in the order in which the tests were collected."""
    from xdist.scheduler import LoadScopeScheduling  # where it is not in use it need not be there

    class Spreading(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope(nodeid)

    config.option.loadscopereorder = False
    return Spreading(config, log)
