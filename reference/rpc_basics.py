"""Make remote calls by ``rpc_sync``, ``rpc_async``, ``remote`` and ``to_here``, to a peer and to oneself.

Source: seed 000, section 1 (RPC and RRef); seed 003 (remote execution: builtin operators, Python functions and
TorchScript functions can be called).

Roles: ``caller`` makes every call and returns the trace; ``dest_worker`` serves. A step makes each kind of call with
each kind of function to each of the two. Tensors are (size, size), on the CPU. Their elements are whole numbers from 1
to 1000: float32 holds every sum and product of the functions exactly, so each result has the same bits, with fused
operations or without.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.distributed.rpc as rpc

from reference.roles import Roles
from reference.rpc.timeouts import rpc_timeout
from reference.trace.case import Case as BaseCase
from reference.trace.case import number_field
from reference.trace.recorder import Recorder
from reference.trace.trace import Trace
from reference.training.placement import one_thread
from reference.training.rng import generator, seed_for

ROLES = ("caller", "dest_worker")

# --- The lesson: every form of call, with every kind of function -----------------------------------------------------


# Each makes a call of a function on a role, and waits for its result.
FORMS: dict[str, Callable[..., Any]] = {
    "rpc_sync": lambda to, function, args: rpc.rpc_sync(to, function, args=args),
    # Returns a future at once.
    "rpc_async": lambda to, function, args: rpc.rpc_async(to, function, args=args).wait(),
    # Returns a reference at once; the result stays on the other role until it is fetched.
    "remote": lambda to, function, args: rpc.remote(to, function, args=args).to_here(),
}


def called(to: str, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
    """Call every function in every form, from this role to ``to``."""
    return {f"{form}/{kind}": make(to, f, (x, y)) for kind, f in FUNCTIONS.items() for form, make in FORMS.items()}


def scaled_sum(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """A Python function; it runs under the callee's GIL."""
    return x + 2 * y


def _script(function: Callable[..., torch.Tensor]) -> Any:
    with warnings.catch_warnings():
        # Deprecated upstream, but still the only kind of function that RPC runs without the GIL.
        warnings.filterwarnings("ignore", message=".torch.jit.script. is")
        return torch.jit.script(function)


def _scripted_sum(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x * 3 + y


scripted_sum = _script(_scripted_sum)

FUNCTIONS: dict[str, Callable[..., torch.Tensor]] = {
    "builtin": torch.add,
    "python": scaled_sum,
    "torchscript": scripted_sum,
}


def reseed(seed: int) -> None:
    """Seed the callee's own generator, from which its ``torch.randn`` draws."""
    torch.default_generator.manual_seed(seed)


# --- The lesson: exceptions on their way back ------------------------------------------------------------------------


class Refused(Exception):
    """An exception class of the user's own."""


# What every refusal says, on its way back too.
REFUSAL = "asked to refuse"
KINDS: dict[str, type[Exception]] = {"ValueError": ValueError, "KeyError": KeyError, "Refused": Refused}


def refuse(kind: str) -> torch.Tensor:
    """Raise an exception on the callee: ValueError, KeyError or the user's own `Refused`."""
    raise KINDS[kind](REFUSAL)


def call(to: str, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Call like ``rpc_sync``, but let exceptions keep their type.

    ``rpc_sync`` and ``rpc_async`` turn every exception except TypeError and ValueError into RuntimeError (erratum
    0.13); fetching a failed remote value does not.

    Raises:
        Exception: the exception that ``function`` raised on ``to``, with its own class.
    """
    return rpc.remote(to, function, args=args).to_here()


# The same forms, by what raises: with ``remote`` it is the fetch.
RAISING = {"rpc_sync": FORMS["rpc_sync"], "rpc_async": FORMS["rpc_async"], "to_here": FORMS["remote"], "call": call}


def refused(to: str) -> dict[str, torch.Tensor]:
    """Provoke exceptions on ``to`` in every form of call: 1 for those that keep their class on their way back, or 0.

    Raises:
        RuntimeError: a call failed for another reason, such as a lost peer.
    """
    kept: dict[str, torch.Tensor] = {}
    for kind in KINDS:
        for form, make in RAISING.items():
            try:
                make(to, refuse, (kind,))
            except Exception as error:
                if REFUSAL not in str(error):
                    raise
                kept[f"{form}/{kind}"] = torch.tensor(int(type(error).__name__ == kind))
    return kept


# --- Roles and Case --------------------------------------------------------------------------------------------------


def run_caller(case: Case) -> Trace:
    """Run role ``caller``: make every call in every step, and return the trace."""
    recorder = Recorder(case, {})
    with rpc_timeout(case.timeout):
        for step in range(case.steps):
            x, y = inputs(case, step)
            for to in ROLES:
                recorder.put(f"{step:04d}/result/{to}", called(to, x, y))
                recorder.put(f"{step:04d}/typed/{to}", refused(to))
                rpc.rpc_sync(to, reseed, args=(seed_for(case.seed, f"{to}/{step}"),))
                # The size is one argument, because calls of builtin operators go through schema matching (S0.3).
                drawn = rpc.remote(to, torch.randn, args=((case.size, case.size),)).to_here()
                recorder.put(f"{step:04d}/randn", {to: drawn})
    return recorder.trace()


def inputs(case: Case, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw two (size, size) tensors of whole numbers for step ``step``."""
    draws = generator(case.seed, f"inputs/{step}")
    shape = (case.size, case.size)
    x, y = (torch.randint(1, 1001, shape, generator=draws, dtype=torch.float32) for _ in range(2))
    return x, y


def roles(case: Case) -> Roles:
    return Roles({"caller": partial(run_caller, case)}, serving=["dest_worker"])


@dataclass(frozen=True)
class Case(BaseCase):
    """One step of 3 × 3 tensors, the seed's own size."""

    size: int = number_field(3, "rows and columns of every tensor", at_least=1, at_most=4096)


# --- The twin: the same in one process -------------------------------------------------------------------------------


@one_thread()
def train_locally(case: Case, replay: Trace | None = None) -> Trace:
    """The twin: call the same functions in this process. Exceptions keep their type as torch documents it."""
    recorder = Recorder(case, {})
    for step in range(case.steps):
        x, y = inputs(case, step)
        for to in ROLES:
            for kind, function in FUNCTIONS.items():
                recorder.put(f"{step:04d}/result/{to}", {f"{form}/{kind}": function(x, y) for form in FORMS})
            for kind in KINDS:
                for form in RAISING:
                    kept = form in ("to_here", "call") or kind == "ValueError"
                    recorder.put(f"{step:04d}/typed/{to}", {f"{form}/{kind}": torch.tensor(int(kept))})
            draws = torch.Generator().manual_seed(seed_for(case.seed, f"{to}/{step}"))
            drawn = torch.randn((case.size, case.size), generator=draws)
            recorder.put(f"{step:04d}/randn", {to: drawn})
    return recorder.trace()
