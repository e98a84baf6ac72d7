"""A parameter server whose workers train asynchronously.

Source: seed 001 (its one listing). The published program never finds its server, never gives a worker the server's
weights and may crash the server (S1.1 to S1.17); this one keeps its classes, methods and messages.

Roles: ``ps`` owns the model (10 inputs, 1 output) and returns the trace; each ``worker1`` … pulls the parameters,
computes the gradients of a batch (batch_size, 10) and sends them. With ``staleness`` 1 a worker goes on with the
next batch while the server applies its gradients, on weights that lack just those: that is not plain SGD, and the
twin does the same. With several workers the order in which they pull and push decides the numbers; the trace records
it under ``order`` and the twin replays it. One worker's order is known beforehand.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
import torch.distributed.rpc as rpc
from torch import nn, optim
from torch.distributed.rpc import RRef

from reference.case import choice, number
from reference.exactness import BITS, WANTED, NotExact, proven
from reference.grid import Grid, grid_of_values
from reference.seeding import generator, seed_for
from reference.threads import one_thread
from reference.trace import Recorder, Trace, TraceError
from reference.training.training_case import ExactableCase

PULL, PUSH = 0, 1

Gradients = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Case(ExactableCase):
    """The seed's sizes: nn.Linear(10, 1), batches of 5, SGD with 0.01, one worker; it makes a single update."""

    steps: int = number(100, "updates that each worker sends", at_least=1)
    workers: int = number(1, "number of workers", at_least=1, at_most=255, scales=True)
    batch_size: int = number(5, "rows of a batch", at_least=1, at_most=65536)
    inputs: int = number(10, "features of the model's input", at_least=1, at_most=65536)
    outputs: int = number(1, "features of the model's output", at_least=1, at_most=65536)
    lr: float = number(0.01, "learning rate of SGD", at_least=0.0)
    staleness: int = number(1, "own updates a worker's weights may lack: 1 computes on, 0 waits", at_least=0, at_most=1)
    device: str = choice("cpu", "cuda", help="where workers compute; the server stays on the CPU", result=False)

    EXACT: ClassVar[Mapping[str, Any]] = {"dtype": "float64", "lr": 0.125}

    def validate(self) -> None:
        self.require_exact("lr")


def worker_names(case: Case) -> list[str]:
    return [f"worker{index}" for index in range(1, case.workers + 1)]


def build_model(case: Case) -> nn.Linear:
    """The server's initial model, drawn in float32 whatever the case's dtype."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed_for(case.seed, "model"))
        model = nn.Linear(case.inputs, case.outputs)
        if case.arithmetic == "exact":
            for parameter in model.parameters():
                parameter.data.copy_(torch.randint(-2, 3, parameter.shape))
    return model.to(getattr(torch, case.dtype))


def batches(case: Case, worker: str) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Per step, data (batch_size, inputs) and target (batch_size, outputs), each worker's its own.

    The target is a fixed linear function of the data, so that there is something to learn; published: noise. It is
    computed in the case's dtype, because a float32 product in a float64 case would round as float32 does.
    """
    draws = generator(case.seed, worker)
    dtype = getattr(torch, case.dtype)
    teacher = torch.randn(case.inputs, case.outputs, generator=generator(case.seed, "teacher"))
    for _ in range(case.steps):
        if case.arithmetic == "exact":
            data = torch.randint(-2, 3, (case.batch_size, case.inputs), generator=draws).float()
            target = torch.randint(-2, 3, (case.batch_size, case.outputs), generator=draws).float()
        else:
            data = torch.randn(case.batch_size, case.inputs, generator=draws)
            target = data.to(dtype) @ teacher.to(dtype)
        yield data.to(dtype), target.to(dtype)


def gradients_of(
    case: Case, model: nn.Module, data: torch.Tensor, target: torch.Tensor
) -> tuple[torch.Tensor, Gradients]:
    """Loss and named gradients of one batch, on the CPU; the model may live elsewhere."""
    device = next(model.parameters()).device
    model.zero_grad()
    output, target = model(data.to(device)), target.to(device)
    loss = (output * target).sum() if case.arithmetic == "exact" else (output - target).pow(2).mean()
    loss.backward()
    named = {name: p.grad.cpu() for name, p in model.named_parameters() if p.grad is not None}
    return loss.detach().cpu(), named


class MissingWorker(RuntimeError):
    """The server gave up on workers that sent nothing for the case's timeout. Names them."""


class ParameterServer:
    """Runs on ``ps``. Every method may be called by several RPC threads at once."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.model = build_model(case)
        self.optimizer = optim.SGD(self.model.parameters(), lr=case.lr)
        # The published server has no lock: two calls at once lose updates or end the process (S1.13).
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        self.recorder = Recorder(case, dict(self.model.named_parameters()), steps=case.steps * case.workers)
        self.order: list[tuple[int, int]] = []
        self.sent = dict.fromkeys(worker_names(case), 0)
        self.known: set[tuple[int, str, int]] = set()
        self.heard = dict.fromkeys(self.sent, time.monotonic())
        self.updates = 0

    @staticmethod
    def get_parameter_rrefs(ps_rref: RRef[Any], worker: str, number: int) -> list[RRef[Any]]:
        """One RRef per parameter, in the model's order, to copies taken at one moment; the worker's ``number``-th.

        Copies: while a worker fetches live parameters one by one, others are being updated. And a plain
        list: what ``@async_execution`` decorates must return a future (S1.12).
        """
        ps = ps_rref.local_value()
        with ps.lock:
            ps._note(PULL, worker, number)
            return [RRef(parameter.detach().clone()) for parameter in ps.model.parameters()]

    def apply_gradients(self, worker: str, number: int, gradients_dict: Gradients, loss: torch.Tensor) -> bool:
        """One optimizer step with a worker's named gradients, its ``number``-th.

        A call that arrives twice changes nothing the second time: an update that is sent again is no other update.

        Raises:
            KeyError: a name that is none of the model's parameters; nothing was applied.
            ValueError: a gradient of another shape, or an unknown worker; nothing was applied.
        """
        with self.lock:
            parameters = dict(self.model.named_parameters())
            gradients = {parameters[name]: gradient for name, gradient in gradients_dict.items()}
            for parameter, gradient in gradients.items():
                if gradient.shape != parameter.shape:
                    raise ValueError(f"a gradient of shape {tuple(gradient.shape)}, wanted {tuple(parameter.shape)}")
            if not self._note(PUSH, worker, number):
                return True
            self.optimizer.zero_grad()
            for parameter, gradient in gradients.items():
                parameter.grad = gradient.to(parameter.device)
            self.optimizer.step()
            self.recorder.step(self.updates, {worker: loss}, parameters)
            self.updates += 1
        return True

    def wait_for_workers(self) -> Trace:
        """Runs on the role's own thread: the trace, once every worker has sent all its updates.

        Raises:
            MissingWorker: a worker that has more to send was not heard for the case's timeout (seconds).
        """
        with self.changed:
            self.heard = dict.fromkeys(self.heard, time.monotonic())
            while busy := {name: n for name, n in self.sent.items() if n < self.case.steps}:
                due = min(self.heard[name] for name in busy) + self.case.timeout
                if due <= time.monotonic():
                    raise MissingWorker(f"nothing for {self.case.timeout} s from {self._silent(busy)}")
                self.changed.wait(due - time.monotonic())
            self.recorder.put("order", {"events": torch.tensor(self.order, dtype=torch.int64)})
            return self.recorder.trace()

    def _note(self, kind: int, worker: str, number: int) -> bool:
        """False for what has been noted before."""
        rank = worker_names(self.case).index(worker)
        self.heard[worker] = time.monotonic()
        if (kind, worker, number) in self.known:
            return False
        self.known.add((kind, worker, number))
        self.order.append((kind, rank))
        self.sent[worker] += kind == PUSH
        self.changed.notify_all()
        return True

    def _silent(self, busy: Mapping[str, int]) -> str:
        since = time.monotonic() - self.case.timeout
        return ", ".join(
            f"{name} (sent {n} of {self.case.steps})" for name, n in busy.items() if self.heard[name] <= since
        )


class _Published:
    """On ``ps``: where workers find the server. They may well ask before it is there (S1.7, S1.8)."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.rref: RRef[Any] | None = None

    def set(self, rref: RRef[Any] | None) -> None:
        with self.changed:
            self.rref = rref
            self.changed.notify_all()

    def get(self, timeout: float) -> RRef[Any]:
        with self.changed:
            if not self.changed.wait_for(lambda: self.rref is not None, timeout):
                raise TimeoutError(f"no parameter server on this role after {timeout} s")
            assert self.rref is not None
            return self.rref


global_ps_rref = _Published()


def get_parameter_server(timeout: float) -> RRef[Any]:
    """Runs on ``ps``: the server's RRef. A named function, since a lambda cannot be sent (S1.5)."""
    return global_ps_rref.get(timeout)


class Worker:
    """Runs on each worker."""

    def __init__(self, case: Case, name: str) -> None:
        self.case = case
        self.name = name
        # The RRef itself: to_here() would bring a copy, and train that (S1.9, S1.11).
        self.ps_rref = rpc.rpc_sync("ps", get_parameter_server, args=(case.timeout,), timeout=case.timeout + 5)
        self.local_model = build_model(case).to(case.device)
        self.pulls = self.pushes = 0

    def pull(self) -> None:
        """Give the local model the server's weights: the published worker never does (S1.14)."""
        owner, method, limit = self.ps_rref.owner(), ParameterServer.get_parameter_rrefs, self.case.timeout
        self.pulls += 1
        rrefs = rpc.rpc_sync(owner, method, args=(self.ps_rref, self.name, self.pulls), timeout=limit)
        with torch.no_grad():
            for parameter, rref in zip(self.local_model.parameters(), rrefs, strict=True):
                parameter.copy_(rref.to_here(timeout=limit))

    def push(self, loss: torch.Tensor, gradients: Gradients) -> torch.futures.Future[bool]:
        self.pushes += 1
        proxy, number = self.ps_rref.rpc_async(timeout=self.case.timeout), self.pushes
        return proxy.apply_gradients(self.name, number, gradients, loss)  # type: ignore[no-any-return]

    def train(self) -> None:
        pending: torch.futures.Future[bool] | None = None
        self.pull()
        for data, target in batches(self.case, self.name):
            if pending is not None and self.case.staleness == 0:
                self.applied(pending)
                pending = None
            loss, gradients = gradients_of(self.case, self.local_model, data, target)
            if pending is not None:
                self.applied(pending)
            pending = self.push(loss, gradients)
        if pending is not None:
            pending.wait()

    def applied(self, pending: torch.futures.Future[bool]) -> None:
        """Wait until the server has applied what was pushed, then take its weights."""
        pending.wait()
        self.pull()


@dataclass(frozen=True)
class RunPs:
    """What role ``ps`` runs."""

    case: Case

    def __call__(self) -> Trace:
        ps = ParameterServer(self.case)
        global_ps_rref.set(RRef(ps))
        try:
            return ps.wait_for_workers()
        finally:
            global_ps_rref.set(None)


@dataclass(frozen=True)
class RunWorker:
    """What each worker runs."""

    case: Case
    name: str

    def __call__(self) -> None:
        Worker(self.case, self.name).train()


def roles(case: Case) -> dict[str, Callable[[], object]]:
    workers = {name: RunWorker(case, name) for name in worker_names(case)}
    return {"ps": RunPs(case), **workers}


class _LocalWorker:
    """In the twin: one worker's weights and the gradients that it has yet to push."""

    def __init__(self, case: Case, name: str) -> None:
        self.case = case
        self.model = build_model(case)
        self.batches = batches(case, name)
        self.computed: tuple[torch.Tensor, Gradients] | None = None
        self.pulled = False

    def compute(self) -> tuple[torch.Tensor, Gradients]:
        if self.computed is None:
            self.computed = gradients_of(self.case, self.model, *next(self.batches))
        return self.computed

    def pull(self, weights: Mapping[str, Any]) -> None:
        if self.pulled and self.case.staleness == 1:
            self.compute()  # the next gradients are those of the weights it had until now
        self.model.load_state_dict(weights)
        self.pulled = True

    def push(self) -> tuple[torch.Tensor, Gradients]:
        computed, self.computed = self.compute(), None
        return computed


def known_order(case: Case) -> list[tuple[int, int]]:
    """The order of events with one worker, whatever its staleness."""
    return [(PULL, 0), (PUSH, 0)] * case.steps


def recorded_order(case: Case, run: Trace) -> list[tuple[int, int]]:
    """The order of events in a run's trace.

    Raises:
        TraceError: none in it, or not every worker's pulls and pushes by turns.
    """
    events = run.tensors.get("order/events", torch.empty(0, 2, dtype=torch.int64))
    if events.dtype != torch.int64 or events.dim() != 2 or events.shape[1] != 2:
        got = f"{events.dtype} of shape {tuple(events.shape)}"
        raise TraceError(f"order/events: wanted pairs of kind and worker in {torch.int64}, got {got}")
    order = [(kind, worker) for kind, worker in events.tolist()]
    kinds: dict[int, list[int]] = {}
    for kind, worker in order:
        kinds.setdefault(worker, []).append(kind)
    for index, name in enumerate(worker_names(case)):
        turns = kinds.pop(index, [])
        if len(turns) != 2 * case.steps or turns != [PULL, PUSH] * case.steps:
            raise TraceError(f"order/events: {name} did not pull and push by turns, {case.steps} times each")
    if kinds:
        raise TraceError(f"order/events: there is no worker {min(kinds)}, wanted 0 to {case.workers - 1}")
    return order


def rehearse(case: Case) -> Trace:
    """The twin of an exact case before its run: workers by turns.

    Raises:
        NotExact: in this order, or in any other. All orders add the same updates, because no gradient of an exact case
            depends on the weights; a loss is that of some of them.
    """
    turns = [(kind, index) for _ in range(case.steps) for index in range(case.workers) for kind in (PULL, PUSH)]
    trace = train_locally(replace(case, record="every"), Trace(case, {"order/events": torch.tensor(turns)}))
    misfit = most_in_any_order(case, trace).misfit(BITS[torch.float64])
    if misfit:
        raise NotExact(f"the loss of some order of the workers {misfit}; {WANTED}")
    return trace


def most_in_any_order(case: Case, trace: Trace) -> Grid:
    """Of every loss: the terms of each output, where all updates of weight and bias have one sign."""
    terms: dict[str, list[torch.Tensor]] = {"weight": [], "bias": []}
    for key, tensor in trace.tensors.items():
        place, _, name = key.rpartition("/")
        if place == "initial" or place.endswith("/gradient"):
            terms[name].append(tensor.abs() * (1 if place == "initial" else case.lr))
    every = torch.cat([tensor.flatten() for found in terms.values() for tensor in found])
    weight, bias = (torch.stack(found).sum(0) for found in terms.values())
    loss = max(
        float(((data.abs() @ weight.T + bias) * target.abs()).sum())
        for name in worker_names(case)
        for data, target in batches(case, name)
    )
    return Grid(grid_of_values(every.numpy()).unit, loss)  # data and targets are integers


@one_thread()
@proven
def train_locally(case: Case, replay: Trace | None = None) -> Trace:
    """The twin: plain SGD on gradients of the same weights.

    Raises:
        TraceError: several workers and no trace, or one whose order cannot be replayed.
    """
    if case.workers > 1 and replay is None:
        raise TraceError("with several workers the order of events decides: pass the run's trace as replay")
    order = known_order(case) if replay is None else recorded_order(case, replay)
    model = build_model(case)
    parameters = dict(model.named_parameters())
    optimizer = optim.SGD(model.parameters(), lr=case.lr)
    names = worker_names(case)
    workers = [_LocalWorker(case, name) for name in names]
    recorder = Recorder(case, parameters, steps=case.steps * case.workers)
    pushes = 0
    for kind, index in order:
        if kind == PULL:
            workers[index].pull(model.state_dict())
            continue
        loss, gradients = workers[index].push()
        for name, parameter in parameters.items():
            parameter.grad = gradients[name]
        optimizer.step()
        recorder.step(pushes, {names[index]: loss}, parameters)
        pushes += 1
    recorder.put("order", {"events": torch.tensor(order, dtype=torch.int64)})
    return recorder.trace()
