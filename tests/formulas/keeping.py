"""The tensors that a trace keeps of a step: copies under its names, and with ``record="ends"`` only some."""

from __future__ import annotations

from tests.formulas.common import Tensors


def copies(named: Tensors, prefix: str) -> Tensors:
    """Copy the tensors as they are now, under the names that a trace gives them."""
    return {f"{prefix}/{name}": tensor.detach().clone() for name, tensor in named.items()}


def kept(trace: Tensors, steps: int, record: str, always: tuple[str, ...] = ("loss",)) -> Tensors:
    """Drop what "ends" leaves out: all but the initial and the last values, and ``always`` of every step."""
    last = f"{steps - 1:04d}"
    ends = {f"{last}/parameter", f"{last}/buffer", *(f"{step:04d}/{kind}" for step in range(steps) for kind in always)}
    return {
        name: tensor
        for name, tensor in trace.items()
        if record == "every"
        or name.startswith("initial/")
        or not ends.isdisjoint((name, "/".join(name.split("/")[:2])))
    }
