"""Let data flow over five workers by passing RRefs, so that no payload passes through the coordinator.

Source: seed 003 (remote reference: worker 0 sets up dependencies between four others, no data goes through it).

Roles: ``worker0`` coordinates; for each step and worker it returns the bytes that crossed the network, as counted by
the worker's kernel. ``worker1`` and ``worker2`` make data, ``worker3`` adds the two, ``worker4`` scales the sum, keeps
it and returns the trace. A payload is (side, side) in float32, of whole numbers from 1 to 1000: the sum and the scaled
sum are exact in float32, so each has the same bits, with fused operations or without.
"""

from __future__ import annotations

import math
import queue
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import torch.distributed.rpc as rpc
from torch.distributed.rpc import RRef

from reference.roles import Roles, serve
from reference.rpc.timeouts import rpc_timeout
from reference.rpc.traffic import Traffic, traffic
from reference.trace.case import Case as BaseCase
from reference.trace.case import number_field
from reference.trace.recorder import Recorder
from reference.trace.trace import Trace
from reference.training.placement import one_thread
from reference.training.rng import generator

WORKERS = tuple(f"worker{index}" for index in range(5))
Tensors = dict[str, torch.Tensor]

# --- The lesson: the data flows between four workers, and worker0 only says how --------------------------------------


def make(seed: int, name: str, side: int) -> torch.Tensor:
    """Runs on worker1 and worker2: draw a (side, side) tensor of whole numbers."""
    return torch.randint(1, 1001, (side, side), generator=generator(seed, name), dtype=torch.float32)


def add(a: RRef[torch.Tensor], b: RRef[torch.Tensor]) -> torch.Tensor:
    """Runs on worker3: fetch both tensors from their owners and add them."""
    return _sum(a.to_here(), b.to_here())


def keep(total: RRef[torch.Tensor]) -> None:
    """Runs on worker4: fetch the sum from worker3, scale it and keep the result."""
    _kept.put({"sum": _scale(total.to_here())})


def flow(case: Case, step: int) -> RRef[None]:
    """Runs on worker0: make a step's calls, each with references to the results of the calls before it."""
    a = rpc.remote("worker1", make, args=(case.seed, f"worker1/{step}", case.side))
    b = rpc.remote("worker2", make, args=(case.seed, f"worker2/{step}", case.side))
    total = rpc.remote("worker3", add, args=(a, b))
    kept: RRef[None] = rpc.remote("worker4", keep, args=(total,))
    return kept


def _sum(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a + b


def _scale(total: torch.Tensor) -> torch.Tensor:
    return total * 2 + 1


# --- What crossed the network ----------------------------------------------------------------------------------------

# Payloads that each worker receives and sends in one step: worker3 fetches two, worker4 one.
RECEIVED = {"worker0": 0, "worker1": 0, "worker2": 0, "worker3": 2, "worker4": 1}
SENT = {"worker0": 0, "worker1": 1, "worker2": 1, "worker3": 1, "worker4": 0}


class NotMeasured(RuntimeError):
    """The kernel's counters missed payloads that were certainly sent: the transport is not TCP."""


class Misrouted(RuntimeError):
    """Payloads took another way than they should, or went twice. Says where, how many, and how many were wanted."""


class FlowStopped(TimeoutError):
    """worker4 waited in vain for a step's data. Says which step, and how long it waited."""


def payload(case: Case) -> int:
    """The bytes of one payload."""
    return 4 * case.side * case.side


def payloads(case: Case, crossed: dict[str, Traffic]) -> Tensors:
    """Convert traffic to payloads. One tenth of a payload counts as a whole one; RPC's own messages are smaller."""
    counts = {}
    for name, bytes_ in crossed.items():
        counts[f"received/{name}"] = torch.tensor(math.ceil(bytes_.received / payload(case) - 0.1))
        counts[f"sent/{name}"] = torch.tensor(math.ceil(bytes_.sent / payload(case) - 0.1))
    return counts


def note(counts: Tensors) -> None:
    """Runs on worker4: take the coordinator's counts of a step for the trace."""
    _noted.put(counts)


def check(step: int, counts: Tensors) -> None:
    """Raises Misrouted if a worker received or sent more or fewer payloads than the flow needs."""
    for way, wanted in (("received", RECEIVED), ("sent", SENT)):
        for name, payloads_ in wanted.items():
            got = int(counts[f"{way}/{name}"])
            if got != payloads_:
                raise Misrouted(f"step {step}: {name} {way} {got} payloads, wanted {payloads_}")


# --- Roles and Case --------------------------------------------------------------------------------------------------


def run_coordinator(case: Case) -> list[dict[str, Traffic]]:
    """Run worker0. Returns, for each step, the bytes that each worker received and sent.

    Raises:
        NotMeasured: worker3 counted less than the two payloads that it has fetched.
        Misrouted: as `check`.
    """
    steps = []
    with rpc_timeout(case.timeout):
        for step in range(case.steps):
            before = {name: rpc.rpc_sync(name, traffic) for name in WORKERS}  # each worker's own counters
            flow(case, step).to_here(timeout=case.timeout)  # fetches None, which says that the data has arrived
            crossed = {name: rpc.rpc_sync(name, traffic) - before[name] for name in WORKERS}
            if round(crossed["worker3"].received / payload(case)) < 2:
                seen, wanted = crossed["worker3"].received, 2 * payload(case)
                raise NotMeasured(f"worker3 counted {seen} bytes, wanted about {wanted}: is this TCP?")
            counts = payloads(case, crossed)
            rpc.rpc_sync("worker4", note, args=(counts,))
            check(step, counts)
            steps.append(crossed)
    return steps


# On worker4, for its own role function: the sums that have arrived, and the coordinator's counts, step after step.
_kept: queue.SimpleQueue[Tensors] = queue.SimpleQueue()
_noted: queue.SimpleQueue[Tensors] = queue.SimpleQueue()


def run_keeper(case: Case) -> Trace:
    """Run worker4: collect every step's sum and counts, in order, and return the trace.

    Raises:
        FlowStopped: nothing came within the case's timeout.
    """
    recorder = Recorder(case, {})
    for step in range(case.steps):
        recorder.put(f"{step:04d}", _next(_kept, step, case.timeout))
        recorder.put(f"{step:04d}/payloads", _next(_noted, step, case.timeout))
    return recorder.trace()


def _next(arrivals: queue.SimpleQueue[Tensors], step: int, timeout: float) -> Tensors:
    try:
        return arrivals.get(timeout=timeout)
    except queue.Empty:
        raise FlowStopped(f"step {step}: nothing for {timeout} s") from None


def roles(case: Case) -> Roles:
    """Make the roles. All data goes by TCP, so that the kernel counts it."""
    playing: dict[str, Callable[[], object]] = dict.fromkeys(WORKERS, serve)
    playing |= {"worker0": partial(run_coordinator, case), "worker4": partial(run_keeper, case)}
    return Roles(playing, {"_transports": ["uv"], "_channels": ["basic"]})


@dataclass(frozen=True)
class Case(BaseCase):
    """Three steps of 1 MiB; the talk names no sizes."""

    steps: int = number_field(3, "number of times that data flows", at_least=1)
    side: int = number_field(512, "rows and columns of the payload, in float32", at_least=128, at_most=16384)


# --- The twin: the same in one process -------------------------------------------------------------------------------


@one_thread()
def train_locally(case: Case, replay: Trace | None = None) -> Trace:
    """The twin: compute the same sums, and the number of payloads that each worker must receive and send."""
    recorder = Recorder(case, {})
    for step in range(case.steps):
        a = make(case.seed, f"worker1/{step}", case.side)
        b = make(case.seed, f"worker2/{step}", case.side)
        recorder.put(f"{step:04d}", {"sum": _scale(_sum(a, b))})
        for way, counts in (("received", RECEIVED), ("sent", SENT)):
            recorder.put(f"{step:04d}/payloads/{way}", {name: torch.tensor(n) for name, n in counts.items()})
    return recorder.trace()
