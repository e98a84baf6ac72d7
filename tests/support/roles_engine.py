"""Functions of roles for faults of what torch sends by itself: fetches of RRefs, and gradients."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from types import FunctionType
from typing import Any

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from torch.distributed.rpc import PyRRef  # type: ignore[attr-defined]
from torch.distributed.rpc.internal import _internal_rpc_pickler

from tests.support.answers import Answer, answer
from tests.support.roles_plain import nothing

VALUE = (1.0, 2.0, 3.0)


def value() -> torch.Tensor:
    return torch.tensor(VALUE, dtype=torch.float64, requires_grad=True)


class SoldOutError(Exception):
    """An error that is no `RuntimeError`."""


def refuse_by(kind: type[Exception], text: str) -> None:
    raise kind(text)


def fetch_errors(to: str) -> list[tuple[str, str]]:
    """Fetch values that are errors: the type and text of each."""
    refusals = [(ValueError, "no sale"), (KeyError, "two\nlines"), (SoldOutError, "\\d für \\u00e4"), (OSError, "")]
    found = [answer(rpc.remote(to, refuse_by, args=each).to_here) for each in refusals]
    return [(each.error, each.text) for each in found]


def fetches(to: str, count: int, timeout: float = 10.0, short: Collection[int] = ()) -> list[Answer]:
    """Fetch a new RRef's value so many times. Those that ``short`` names have the ``timeout``, the others 10 s."""
    rref = rpc.remote(to, value)

    def one(number: int) -> Answer:
        return answer(lambda: rref.to_here(timeout if number in short else 10.0).tolist())

    return [one(number) for number in range(1, count + 1)]


def fetch_in_other_ways(to: str) -> list[Any]:
    """Fetch a value of this role, one of a builtin with its timeout in two ways, and one that is an error."""
    own: Any = rpc.RRef(7)
    failed = answer(rpc.remote(to, refuse_by, (ValueError, "no sale")).to_here)
    ready: Any = rpc.remote(to, torch.add, args=(torch.ones(2), 1))
    return [own.to_here(), ready.to_here(timeout=5).tolist(), ready.to_here(5.0).tolist(), failed.error]


def fetch_while_refused(to: str, timeout: float) -> Answer:
    """Fetch a value with this timeout while an error that the callee has answered is handled."""
    rref = rpc.remote(to, value)
    try:
        rpc.rpc_sync(to, refuse_by, (ValueError, "no sale"))
    except ValueError:
        return answer(lambda: rref.to_here(timeout))
    raise AssertionError


def is_torchs_own() -> tuple[bool, bool]:
    """Whether the fetch, and the unpickling of messages, are those of torch."""
    return not isinstance(vars(PyRRef)["to_here"], FunctionType), "deserialize" not in vars(_internal_rpc_pickler)


def times(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x * y


def backwards(to: str, count: int, before: Callable[[], object] = nothing) -> list[tuple[list[float], list[float]]]:
    """Differentiate sum(3 x y) so many times, with y fetched from its owner: the gradients of x, and of y there.
    ``before``: what is done before each backward pass.

    Each pass sends two messages: 3y, the gradient of x, from the callee; 3x, the gradient of y, from this role. (The
    product is computed by the callee, to which y returns: its gradient comes back, and goes on to its owner.)
    """
    rref = rpc.remote(to, value)
    found = []
    for number in range(1, count + 1):
        x = torch.full((3,), float(number), dtype=torch.float64, requires_grad=True)
        with dist_autograd.context() as context:
            product = rpc.rpc_sync(to, times, args=(x, x.new_ones(3)))
            loss = (3 * product * rref.to_here()).sum()
            before()
            dist_autograd.backward(context, [loss])  # type: ignore[attr-defined]
            there = rpc.rpc_sync(to, gradient_of, args=(context, rref))
            found.append((dist_autograd.get_gradients(context)[x].tolist(), there))  # type: ignore[attr-defined]
    return found


def scaled(calls: int, tensors: torch.Tensor, *, self: int, function: int) -> torch.Tensor:
    return tensors * calls * self * function


def scaled_there(to: str) -> list[float]:
    """Call a function by names that those of the plan's own code may have, too."""
    with dist_autograd.context():
        found = rpc.rpc_sync(to, scaled, kwargs={"calls": 2, "tensors": value(), "self": 1, "function": 1})
    return [float(each) for each in found]


def gradient_of(context: int, rref: Any) -> list[float]:
    found = dist_autograd.get_gradients(context)[rref.local_value()]  # type: ignore[attr-defined]
    return [float(each) for each in found]


def fetch_after_the_shutdown(folder: Path, to: str) -> None:
    """Write the error's text of a fetch after the shutdown, which the callee's function has to join, to a file."""
    rref = rpc.remote(to, value)
    rref.to_here()
    rpc.shutdown()
    (folder / f"from {to}").write_text(answer(rref.to_here).text)
