"""The trace of ``rpc_basics``: three sums, which errors keep their type, and normal numbers.

Draws, all (size, size): x, then y, whole numbers from 1 to 1000, from a generator of ``inputs/STEP``; and the callee's
own, standard normal, from one of ``ROLE/STEP``. All is float32, which holds every whole number below 2**24.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tests.formulas.common import Tensors, draws

# The errors that keep their type. RPC itself sends TypeError and ValueError back as they are, and all others as
# RuntimeError. A failed remote value keeps the type of every error, and `call` fetches one.
KEPT = {
    "rpc_sync": {"ValueError"},
    "rpc_async": {"ValueError"},
    "to_here": {"ValueError", "KeyError", "Refused"},
    "call": {"ValueError", "KeyError", "Refused"},
}


def trace(case: Any, given: Tensors) -> Tensors:
    """Call both roles in every form, with each kind of function."""
    found: Tensors = {}
    for step in range(case.steps):
        numbers = draws(case.seed, f"inputs/{step}")
        x, y = (torch.randint(1, 1001, (case.size, case.size), generator=numbers).numpy() for _ in range(2))
        whole = {"builtin": x + y, "python": x + 2 * y, "torchscript": 3 * x + y}
        sums = {kind: torch.tensor(each.astype(np.float32)) for kind, each in whole.items()}
        for role in ("caller", "dest_worker"):
            for form in ("rpc_sync", "rpc_async", "remote"):
                found |= {f"{step:04d}/result/{role}/{form}/{kind}": each for kind, each in sums.items()}
            for form, kept in KEPT.items():
                for kind in ("ValueError", "KeyError", "Refused"):
                    found[f"{step:04d}/typed/{role}/{form}/{kind}"] = torch.tensor(1 if kind in kept else 0)
            theirs = torch.randn(case.size, case.size, generator=draws(case.seed, f"{role}/{step}"))
            found[f"{step:04d}/randn/{role}"] = theirs
    return found
