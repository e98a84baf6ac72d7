"""How `pytest -n 3` spreads the tests: a file goes to one worker, so its worlds start once; long ones go first."""

from __future__ import annotations

from typing import Any

import pytest

# Files of which each parametrization's first word, such as the tutorial or the program, may go to another worker.
SPLIT = tuple(f"tests/test_{name}.py" for name in ("programs", "script", "matrix", "clusters", "gradients_under_loss"))
# What takes longest begins first, so that no worker waits long for the other at the end.
FIRST = (
    *SPLIT,
    *(
        f"tests/test_{name}.py"
        for name in (
            "network",
            "gradients_exact",
            "gradients_under_plans",
            "world",
            "calls",
            "messages",
            "gradients_natural",
            "batch_reinforce",
            "pytest_plugin",
            "shutdown",
            "faults_sweep",
            "sharded_parameter_server",
            "runs",
            "barrier",
            "hybrid_ddp",
            "rref_forks",
            "batch_parameter_server",
        )
    ),
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
