"""Train asynchronously: each worker pulls the parameters from one server and pushes its gradients there.

Source: seed 001 (its one listing). The published program never finds its server, never gives a worker the server's
weights and may crash the server (S1.1 to S1.17). This program keeps its class and its methods, which also take the
worker's name and the number of the call.

Roles: ``ps`` owns the model (10 inputs, 1 output) and returns the trace; each ``worker1`` … pulls the parameters,
computes the gradients of a batch (batch_size, 10) and sends them. With ``staleness`` 1 a worker computes the next
batch while the server applies its last gradients, so on weights that lack only those. That is not plain SGD, and the
twin does the same. With several workers the order in which they pull and push decides the numbers; the trace records
it under ``order`` and the twin replays it. With one worker the order is known beforehand.

This is the protected form of an asynchronous server: a call says whose it is, and its number. torch sends no call
twice. But a caller who calls again because no reply came, for the request or the reply may be lost, does
(docs/calls.md). A push that comes again gets the same reply and changes nothing. A pull that comes again may get newer
weights than the trace says.
"""

from __future__ import annotations

import copy
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, ClassVar

import torch
import torch.distributed.rpc as rpc
from torch import nn, optim
from torch.distributed.rpc import RRef, rpc_sync

from reference.exact.exactness import proven, require_exact_in_any_order
from reference.roles import Roles, numbered
from reference.rpc.worker_calls import WorkerCalls
from reference.trace import checkpoint
from reference.trace.case import choice_field, number_field
from reference.trace.recorder import Recorder
from reference.trace.trace import Trace, TraceError
from reference.training.data import Batch, linear_batches
from reference.training.placement import device_in_turn, one_thread
from reference.training.rng import build_seeded
from reference.training.training_case import ExactableCase
from reference.training.worker_order import PULL, PUSH, as_tensors, by_turns, recorded_order

Gradients = dict[str, torch.Tensor]

# --- The lesson: the server ------------------------------------------------------------------------------------------


class ParameterServer:
    """Runs on ``ps``. Several RPC threads may call its methods at once."""

    def __init__(self, case: Case) -> None:
        self.model = build_model(case)
        self.optimizer = optim.SGD(self.model.parameters(), lr=case.lr)
        # The published server has no lock: two calls at once lose updates or end the process (S1.13).
        self.lock = threading.Lock()
        self.calls = WorkerCalls(worker_names(case), case.steps, case.timeout)
        self.recorder = Recorder(case, self.model, steps=case.steps * case.workers)
        resumed = checkpoint.resume(model=self.model, calls=self.calls, trace=self.recorder)
        self.updates = case.workers * resumed

    @staticmethod
    def get_parameter_rrefs(ps_rref: RRef[Any], worker: str, number: int) -> list[RRef[Any]]:
        """Answer a worker's ``number``-th pull: one RRef per parameter, in the model's order, to copies of one moment.

        They are copies, because other workers update the live parameters while a worker fetches them one by one. The
        result is a plain list, because a function with ``@async_execution`` must return a future (S1.12).
        """
        ps = ps_rref.local_value()
        with ps.lock:
            ps.calls.count(PULL, worker, number)
            return [RRef(param.detach().clone()) for param in ps.model.parameters()]

    def apply_gradients(self, worker: str, number: int, gradients_dict: Gradients, loss: torch.Tensor) -> bool:
        """Make one optimizer step with a worker's named gradients, its ``number``-th push, unless it came before.

        Raises:
            KeyError: a name is none of the model's parameters. Nothing was applied, nor by the other errors.
            RuntimeError: a gradient has another shape than its parameter.
            ValueError: the worker is unknown.
        """
        with self.lock:
            self.optimizer.zero_grad()
            parameters = dict(self.model.named_parameters())
            for name, gradient in gradients_dict.items():
                parameters[name].grad = gradient.to(parameters[name].device)
            # Only now, because a push that was refused does not count.
            if not self.calls.count(PUSH, worker, number):
                return True
            self.optimizer.step()
            self.recorder.step(self.updates, {worker: loss}, self.model)
            self.updates += 1
        return True

    @staticmethod
    @rpc.functions.async_execution  # type: ignore[untyped-decorator]
    def save(ps_rref: RRef[Any], worker: str, step: int) -> torch.futures.Future[None]:
        """Save a checkpoint when each worker has called this after ``step`` updates. The answer comes then.

        Raises:
            OSError, TypeError: the checkpoint cannot be written. This ends the work.
            ParticipantFailed: the work has ended, because a checkpoint cannot be written or a worker is silent; to
                those that wait a RuntimeError that says so.
        """
        ps = ps_rref.local_value()
        future, last = ps.calls.meet(worker, step)
        if last:
            try:
                with ps.lock:
                    checkpoint.save(step, model=ps.model, calls=ps.calls, trace=ps.recorder)
            except Exception as error:
                ps.calls.fail(f"{type(error).__name__}: {error}")
                raise
            ps.calls.part(step)
        return future  # type: ignore[no-any-return]

    def wait_for_workers(self) -> Trace:
        """Return the trace once every worker has sent all its updates. Runs in the role's own thread.

        Raises:
            MissingWorker: a worker that has more to send was silent for the case's timeout (seconds).
        """
        self.calls.wait_for_all()
        with self.lock:  # the last update may still be running
            self.recorder.put("order", as_tensors(self.calls.order))
            return self.recorder.trace()


# On ``ps``: workers get the server from here. They may ask before it is made (S1.7, S1.8).
global_ps_rref: Future[RRef[Any]] = Future()


def get_parameter_server(timeout: float) -> RRef[Any]:
    """Runs on ``ps``: return the server's RRef. This is a named function, because a lambda cannot be sent (S1.5).

    Raises:
        TimeoutError: there was no server within ``timeout`` seconds.
    """
    try:
        return global_ps_rref.result(timeout)
    except TimeoutError:
        raise TimeoutError(f"no parameter server on this role after {timeout} s") from None


def run_ps(case: Case) -> Trace:
    """Run role ``ps``: wait for the workers and return the trace, which must be read while RPC is up (S1.16)."""
    global global_ps_rref
    ps_instance = ParameterServer(case)
    global_ps_rref.set_result(RRef(ps_instance))
    try:
        return ps_instance.wait_for_workers()
    finally:
        global_ps_rref = Future()


# --- The lesson: the workers -----------------------------------------------------------------------------------------


class Worker:
    """Runs on each worker: has its model, and makes its calls of the server."""

    def __init__(self, case: Case, name: str) -> None:
        self.case = case
        self.name = name
        self.local_model = build_model(case).to(device_in_turn(case.device, worker_names(case).index(name)))
        # What this worker has pulled last decides its next gradients.
        self.pulls = self.pushes = self.met = checkpoint.resume(model=self.local_model)
        if self.pushes < case.steps:  # otherwise nothing is left to do, and the server may have ended
            # The RRef itself, because to_here() would fetch a copy of the server, and train that (S1.9, S1.11).
            self.ps_rref = rpc_sync("ps", get_parameter_server, args=(case.timeout,), timeout=case.reply_timeout)
        self.future: torch.futures.Future[bool] | None = None

    def pull(self) -> None:
        """Wait until the server has applied the last gradients, then take its weights; published: never (S1.14)."""
        if self.future is not None:
            self.future.wait()
        owner, method, limit = self.ps_rref.owner(), ParameterServer.get_parameter_rrefs, self.case.timeout
        self.pulls += 1
        rrefs = rpc_sync(owner, method, args=(self.ps_rref, self.name, self.pulls), timeout=limit)
        with torch.no_grad():
            for parameter, rref in zip(self.local_model.parameters(), rrefs, strict=True):
                parameter.copy_(rref.to_here(timeout=limit))

    def push(self, loss: torch.Tensor, gradients: Gradients) -> torch.futures.Future[bool]:
        """Send gradients to the server. The future completes when they are applied."""
        self.pushes += 1
        ps = self.ps_rref.rpc_async(timeout=self.case.timeout)
        self.future = ps.apply_gradients(self.name, self.pushes, gradients, loss)
        return self.future

    def save(self, step: int) -> None:
        """Wait until the server has applied all gradients, and save this worker's state; then wait for the others."""
        if checkpoint.due(step):
            assert self.future is not None
            self.future.wait()
            checkpoint.save(step, model=self.local_model)
            # Another worker may still have all steps since the last meeting to do, of two calls each. The server names
            # one that is silent.
            limit = min(2 * (step - self.met) * self.case.timeout + 5, 1e6)
            rpc_sync(self.ps_rref.owner(), ParameterServer.save, args=(self.ps_rref, self.name, step), timeout=limit)
            self.met = step


def run_worker(case: Case, name: str) -> None:
    """Run a worker: compute gradients on the weights pulled last, push them, and pull again."""
    worker = Worker(case, name)
    for step, (data, target) in islice(enumerate(batches(case, name)), worker.pushes, None):
        if step == 0 or case.staleness == 0:
            worker.pull()
        loss, gradients_to_send = gradients_of(case, worker.local_model, data, target)
        if step > 0 and case.staleness == 1:
            worker.pull()  # only now, because meanwhile the server has applied the last gradients
        worker.push(loss, gradients_to_send)
        worker.save(step + 1)
    if worker.future is not None:
        worker.future.wait()


def gradients_of(
    case: Case, model: nn.Module, data: torch.Tensor, target: torch.Tensor
) -> tuple[torch.Tensor, Gradients]:
    """Compute the loss and named gradients of one batch, on the CPU; the model may be on another device."""
    device = next(model.parameters()).device
    model.zero_grad()
    output, target = model(data.to(device)), target.to(device)
    loss = (output * target).sum() if case.is_exact else (output - target).pow(2).mean()
    loss.backward()
    named = {name: p.grad.cpu() for name, p in model.named_parameters() if p.grad is not None}
    return loss.detach().cpu(), named


def build_model(case: Case) -> nn.Linear:
    """Build the model with which the server and each worker begin."""
    drawn: dict[str, Any] = {"seed": case.seed, "name": "model", "dtype": case.dtype}
    return build_seeded(nn.Linear, case.inputs, case.outputs, **drawn, integers=2 if case.is_exact else 0)


def batches(case: Case, worker: str) -> Iterator[Batch]:
    """Draw a worker's own data (batch_size, inputs) and target (batch_size, outputs) for each step."""
    return linear_batches(case, worker, case.batch_size, case.inputs, case.outputs)


# --- Roles and Case --------------------------------------------------------------------------------------------------


def worker_names(case: Case) -> list[str]:
    return numbered("worker", case.workers)


def roles(case: Case) -> Roles:
    workers = {name: partial(run_worker, case, name) for name in worker_names(case)}
    return Roles({"ps": partial(run_ps, case), **workers})


@dataclass(frozen=True)
class Case(ExactableCase):
    """The seed's sizes: nn.Linear(10, 1), batches of 5, SGD with 0.01, one worker; it makes a single update."""

    steps: int = number_field(100, "number of updates that each worker sends", at_least=1)
    workers: int = number_field(1, "number of workers", at_least=1, at_most=255, scales=True)
    batch_size: int = number_field(5, "number of rows in a batch", at_least=1, at_most=65536)
    inputs: int = number_field(10, "number of features in the model's input", at_least=1, at_most=65536)
    outputs: int = number_field(1, "number of features in the model's output", at_least=1, at_most=65536)
    lr: float = number_field(0.01, "learning rate of SGD", at_least=0.0)
    staleness: int = number_field(1, "own updates that a worker's weights may lack; 0: it waits", at_least=0, at_most=1)
    device: str = choice_field("cpu", "cuda", help="device of the workers; the server stays on the CPU", result=False)

    EXACT: ClassVar[Mapping[str, Any]] = {"dtype": "float64", "lr": 0.125}

    def validate(self) -> None:
        self.require_exact("lr")


# --- The twin: the same in one process -------------------------------------------------------------------------------


@one_thread()
@proven
def train_locally(case: Case, replay: Trace | None = None) -> Trace:
    """The twin: plain SGD, with the gradients at the weights that each worker had.

    Raises:
        TraceError: there are several workers and no trace, or its order cannot be replayed.
    """
    if case.workers > 1 and replay is None:
        raise TraceError("with several workers the order of events decides bits: wanted the run's trace as replay")
    names = worker_names(case)
    order = by_turns(1, case.steps) if replay is None else recorded_order(replay, names, case.steps)
    model = build_model(case)
    optimizer = optim.SGD(model.parameters(), lr=case.lr)
    recorder = Recorder(case, model, steps=case.steps * case.workers)
    # The models that each worker has pulled. With staleness 1 its gradients are those at the pull before the last.
    pulled: list[deque[nn.Module]] = [deque(maxlen=1 + case.staleness) for _ in names]
    data, updates = [batches(case, name) for name in names], 0
    for kind, worker in order:
        if kind == PULL:
            pulled[worker].append(copy.deepcopy(model).to(device_in_turn(case.device, worker)))
            continue
        at = nn.ModuleDict({"scores": pulled[worker][0]})
        with recorder.outputs(updates, names[worker], at):
            loss, gradients = gradients_of(case, at["scores"], *next(data[worker]))
        for name, parameter in model.named_parameters():
            parameter.grad = gradients[name]
        recorder.before_update(updates, model, gradients)
        optimizer.step()
        recorder.step(updates, {names[worker]: loss}, model)
        updates += 1
    recorder.put("order", as_tensors(order))
    return recorder.trace()


def turns(case: Case) -> Trace:
    """Return the order in which the workers pull and push in turn, as a trace to replay."""
    return Trace(case, {"order/events": as_tensors(by_turns(case.workers, case.steps))["events"]})


def rehearse(case: Case) -> Trace:
    """Run an exact case's twin before its run, with the workers in turn, and prove it exact in any other order.

    Raises:
        NotExact: an operation rounds in this order, or a loss in another one.
    """
    trace = train_locally(replace(case, record="every"), turns(case))
    every_batch = (batch for name in worker_names(case) for batch in batches(case, name))
    require_exact_in_any_order(trace, case.lr, every_batch)
    return trace
