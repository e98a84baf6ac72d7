"""A parameter server that updates once a round, when every trainer has reported its gradients.

Source: seed 002, first half (batch-updating parameter server), with the launcher that the text leaves out (S2.1).

Roles: ``ps`` holds the model, starts every trainer and returns the trace; ``trainer1`` … compute gradients of their
own batches, (batch_size, 3, image_w, image_h) images with one-hot labels (batch_size, num_classes). In a round each
trainer sends its gradients and gets the updated model as the reply of that same call: SGD with momentum on their
mean. The mean is summed in ``rank`` order, or in the order of ``arrival`` as published; the trace records each
round's arrivals, and the twin replays them where they decide bits.

Batch norm: trainers send their buffers along, and the server keeps the mean. In the published form the server's model
never sees a forward pass, so its running statistics stay as initialised and ``eval()`` is meaningless (S2.8).
"""

from __future__ import annotations

import copy
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import torch
import torch.distributed.rpc as rpc
from torch import nn, optim
from torch.distributed.rpc import RRef

from reference.exact.exactness import proven
from reference.system.error_text import cause_of
from reference.system.printable import shown
from reference.trace.case import choice, number
from reference.trace.progress import log_step
from reference.trace.trace import Recorder, Trace, TraceError
from reference.training.gradients import (
    Tensors,
    accumulate,
    average,
    check_shapes,
    hand_out,
    keep_apart,
    weighted_sum,
)
from reference.training.models import build_model
from reference.training.seeding import generator
from reference.training.threads import one_thread
from reference.training.training_case import ExactableCase


@dataclass(frozen=True)
class Case(ExactableCase):
    """The tutorial's numbers: ResNet50, 5 trainers, 6 rounds of 20 images of 64 × 64, 30 classes."""

    steps: int = number(6, "rounds: updates of the model", at_least=1)
    trainers: int = number(5, "trainers, and reports to a round", at_least=1, at_most=255, scales=True)
    model: str = choice("resnet50", "convnet", "mlp", help="what is trained")
    batch_size: int = number(20, "images of a trainer's batch", at_least=2, at_most=65536)
    image_w: int = number(64, "width of an image in pixels", at_least=4, at_most=4096)
    image_h: int = number(64, "height of an image in pixels", at_least=4, at_most=4096)
    num_classes: int = number(30, "classes", at_least=2, at_most=65536)
    lr: float = number(0.001, "learning rate of SGD", at_least=0.0)
    momentum: float = number(0.9, "momentum of SGD", at_least=0.0)
    accumulation: str = choice("rank", "arrival", help="in which order a round's gradients are added")
    device: str = choice("cpu", "cuda", help="where trainers compute; the server stays on the CPU", result=False)

    EXACT: ClassVar[Mapping[str, Any]] = {"dtype": "float64", "model": "mlp", "lr": 0.125, "momentum": 0.5} | {
        "steps": 3,
        "trainers": 4,
        "batch_size": 4,
        "image_w": 8,
        "image_h": 8,
    }

    def validate(self) -> None:
        self.require_exact("lr", "momentum", "trainers", model="mlp")


def trainer_names(case: Case) -> list[str]:
    """The trainers in rank order."""
    return [f"trainer{index}" for index in range(1, case.trainers + 1)]


def initial_model(case: Case) -> nn.Module:
    """What the server starts from, on the CPU."""
    size = {"image_w": case.image_w, "image_h": case.image_h, "num_classes": case.num_classes}
    exact = case.arithmetic == "exact"
    return build_model(case.model, **size, seed=case.seed, dtype=case.dtype, exact=exact)


def sgd(case: Case, model: nn.Module) -> optim.SGD:
    """SGD with momentum in one pass over memory (``fused``), for the server and the twin alike."""
    return optim.SGD(model.parameters(), lr=case.lr, momentum=case.momentum, fused=True)


class RoundFailed(RuntimeError):
    """A round that cannot be completed. Says why, and which trainers it lacks."""


def _model_or_raise(future: torch.futures.Future[nn.Module | RoundFailed]) -> nn.Module:
    result = future.wait()
    if isinstance(result, RoundFailed):
        raise result
    return result


class BatchUpdateParameterServer:
    """Runs on ``ps``; its calls arrive in RPC threads, several at once.

    Every trainer reports once a round. With more or fewer participants than reports some would wait for ever
    (S2.7), so here the number of trainers is the number of reports.
    """

    def __init__(self, case: Case, model: nn.Module | None = None) -> None:
        self.case = case
        self.model = initial_model(case) if model is None else model
        self.lock = threading.Lock()
        self.future_model: torch.futures.Future[nn.Module | RoundFailed] = torch.futures.Future()
        self.trainers = trainer_names(case)
        self.batch_update_size = case.trainers
        self.curr_update_size = 0
        self.optimizer = sgd(case, self.model)
        self.recorder = Recorder(case, dict(self.model.named_parameters()))
        self.round = 0
        self.handed_out = False
        self.arrivals: list[str] = []
        self.held: dict[str, Tensors] = {}
        self.buffers: dict[str, Tensors] = {}
        # For whoever waits for the trainers: the name of each that has ended, and a round that failed.
        self.events: queue.SimpleQueue[str | RoundFailed] = queue.SimpleQueue()
        self.failure: RoundFailed | None = None
        self.ended: set[str] = set()
        self.clock = self._start_clock()

    def get_model(self) -> nn.Module:
        """The model of now: a copy, since the reply is sent while others may already update (S2.5)."""
        with self.lock:
            return copy.deepcopy(self.model)

    @staticmethod
    @rpc.functions.async_execution  # type: ignore[untyped-decorator]
    def update_and_fetch_model(
        ps_rref: RRef[Any], trainer: str, grads: Tensors, buffers: Tensors
    ) -> torch.futures.Future[nn.Module]:
        """Report one trainer's gradients and buffers; the reply is the model after the round's update.

        Blocks no RPC thread: all but the last to arrive get a future that the last one completes.

        Raises:
            RoundFailed: a trainer is missing, unknown or reports twice, or after the last round, or the update failed.
        """
        self = ps_rref.local_value()
        result: nn.Module | RoundFailed | None = None
        with self.lock:
            self._admit(trainer)
            fut = self.future_model
            # Through `then`: an exception set on the returned future itself would arrive as a value.
            reply = fut.then(_model_or_raise)
            try:
                self._hold(trainer, grads, buffers)
                self._accumulate()
                if self.curr_update_size >= self.batch_update_size:
                    result = self._update()
            except Exception as error:  # whatever it was, the others must not wait for it (S2.6)
                result = self._fail(f"the report of {trainer} failed: {type(error).__name__}: {error}")
            if result is not None:
                self._next_round()
        if result is not None:
            # Outside the lock: this serialises every waiting caller's reply in turn (S2.3, S2.4).
            fut.set_result(result)
            threading.Thread(target=self._keep_apart, daemon=True).start()  # while trainers compute
        return reply  # type: ignore[no-any-return]

    def fail(self, reason: str) -> None:
        """End the wait of everybody in this round, and refuse every later report."""
        with self.lock:
            fut = self.future_model
            failure = self._fail(reason)
            self._next_round()
        fut.set_result(failure)

    def close(self) -> None:
        """No further round is expected."""
        with self.lock:
            self.clock.cancel()

    def _admit(self, trainer: str) -> None:
        if self.failure is not None:
            raise self.failure
        if trainer not in self.trainers:
            raise RoundFailed(f"unknown trainer {trainer!r}, wanted one of {', '.join(self.trainers)}")
        if trainer in self.arrivals:
            raise RoundFailed(f"round {self.round}: {trainer} reports twice")
        if self.round >= self.case.steps:  # else who trains twice, interleaved with itself, would come to a trace
            raise RoundFailed(f"{trainer} reports after the last of {self.case.steps} rounds")
        self.arrivals.append(trainer)

    def _order(self) -> list[str]:
        return self.trainers if self.case.accumulation == "rank" else self.arrivals

    def _hold(self, trainer: str, grads: Tensors, buffers: Tensors) -> None:
        """Keep a report until its turn. Checked now: later it would fail in somebody else's call."""
        self._separate()
        check_shapes(grads, list(self.model.parameters()))
        check_shapes(buffers, list(self.model.buffers()))
        self.held[trainer] = grads
        self.buffers[trainer] = buffers

    def _keep_apart(self) -> None:
        with self.lock:
            self._separate()

    def _separate(self) -> None:
        """Leave the tensors of the last reply to the transport, before anything changes them."""
        if self.handed_out:
            keep_apart(self.model)
            self.handed_out = False

    def _accumulate(self) -> None:
        """Add what can be added in order; what has come too early stays held."""
        order = self._order()
        while self.curr_update_size < len(order) and order[self.curr_update_size] in self.held:
            grads = self.held.pop(order[self.curr_update_size])
            accumulate(self.model, grads, first=self.curr_update_size == 0)
            self.curr_update_size += 1

    def _update(self) -> nn.Module:
        """One optimizer step on the mean; returns the snapshot that is sent to everybody."""
        average(self.model, self.batch_update_size, [self.buffers[trainer] for trainer in self._order()])
        self.optimizer.step()
        record(self.recorder, self.round, self.model, [self.trainers.index(t) for t in self.arrivals])
        self.round += 1
        # A snapshot: the transport reads these tensors after the lock is gone (S2.5).
        self.handed_out = True
        return hand_out(self.model)

    def _next_round(self) -> None:
        self.future_model = torch.futures.Future()
        self.curr_update_size = 0
        self.arrivals = []
        self.held = {}
        self.buffers = {}
        self.clock.cancel()
        if self.failure is None:
            self.clock = self._start_clock()

    def _start_clock(self) -> threading.Timer:
        """Fail this round if it is not complete in time: S2.7's trainers wait until the RPC timeout.

        After the last round, the same for the ends of the trainers.
        """
        clock = threading.Timer(self.case.timeout, self._expire, (self.future_model,))
        clock.daemon = True
        clock.start()
        return clock

    def _expire(self, fut: torch.futures.Future[nn.Module | RoundFailed]) -> None:
        with self.lock:
            if fut is not self.future_model:
                return  # completed while the clock struck
            here = self.arrivals if self.round < self.case.steps else self.ended
            missing = [trainer for trainer in self.trainers if trainer not in here]
            failure = self._fail(f"nothing for {self.case.timeout} s from {', '.join(missing)}")
            self._next_round()
        fut.set_result(failure)

    def _fail(self, reason: str) -> RoundFailed:
        self.failure = RoundFailed(f"round {self.round}: {reason}")
        self.events.put(self.failure)
        return self.failure


def record(recorder: Recorder, round_: int, model: nn.Module, arrivals: Sequence[int]) -> None:
    """Put one round into the trace: mean gradients, parameters, buffers, and who came when.

    Buffers are part of the result, so those of the last round are kept whatever ``record`` says.
    """
    recorder.step(round_, {}, model)
    if recorder.case.record == "every" or round_ == recorder.steps - 1:
        recorder.put(f"{round_:04d}/buffer", dict(model.named_buffers()))
    if isinstance(recorder.case, Case) and recorder.case.accumulation == "arrival":
        recorder.put(f"{round_:04d}", {"arrivals": torch.tensor(arrivals)})


class Trainer:
    """Runs on each trainer; in the twin, without a server."""

    def __init__(self, case: Case, name: str, ps_rref: RRef[Any] | None = None) -> None:
        self.case = case
        self.name = name
        self.ps_rref = ps_rref
        self.device = device_of(case, name)
        self.loss_fn: Callable[..., torch.Tensor] = weighted_sum if case.arithmetic == "exact" else nn.MSELoss()
        self.draws = generator(case.seed, name)
        self.one_hot_indices = torch.randint(case.num_classes, (case.batch_size, 1), generator=self.draws)

    def get_next_batch(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Per round, images (batch_size, 3, image_w, image_h) and one-hot labels (batch_size, num_classes)."""
        case, dtype = self.case, getattr(torch, self.case.dtype)
        shape = (case.batch_size, 3, case.image_w, case.image_h)
        labels = torch.zeros(case.batch_size, case.num_classes).scatter_(1, self.one_hot_indices, 1)
        for _ in range(case.steps):
            if case.arithmetic == "exact":
                inputs = torch.randint(-1, 2, shape, generator=self.draws).float()
            else:
                inputs = torch.randn(shape, generator=self.draws)
            yield inputs.to(self.device, dtype), labels.to(self.device, dtype)

    def gradients(self, m: nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The loss; its gradients are in the model's ``.grad``, which must have been empty."""
        loss = self.loss_fn(m(inputs), labels)
        loss.backward()
        return loss.detach().cpu()

    def train(self) -> list[torch.Tensor]:
        """All rounds; returns this trainer's losses.

        Raises:
            RuntimeError: the server's `RoundFailed`, or the server is gone.
        """
        assert self.ps_rref is not None
        case, losses = self.case, []
        m = self.ps_rref.rpc_sync(timeout=case.timeout).get_model().to(self.device)
        for inputs, labels in self.get_next_batch():
            losses.append(self.gradients(m, inputs, labels))
            report = (
                [p.grad.cpu() for p in m.parameters() if p.grad is not None],
                [b.cpu() for b in m.buffers()],
            )
            m = rpc.rpc_sync(
                self.ps_rref.owner(),
                BatchUpdateParameterServer.update_and_fetch_model,
                args=(self.ps_rref, self.name, *report),
                timeout=case.timeout + 5,  # the server's own limit comes first, and says who is missing
            ).to(self.device)
            log_step(len(losses), case.steps, float(losses[-1]))
        return losses


def device_of(case: Case, name: str) -> torch.device:
    """Trainers share the GPUs in turn."""
    if case.device == "cpu":
        return torch.device("cpu")
    return torch.device("cuda", trainer_names(case).index(name) % torch.cuda.device_count())


def run_trainer(ps_rref: RRef[Any], case: Case, name: str) -> list[torch.Tensor]:
    """Runs on a trainer, called by ``ps``."""
    return Trainer(case, name, ps_rref).train()


@dataclass(frozen=True)
class RunPs:
    """What role ``ps`` runs.

    Raises:
        RoundFailed: a trainer was lost or is missing, or failed. Says which, as soon as it is known.
    """

    case: Case

    def __call__(self) -> Trace:
        ps = BatchUpdateParameterServer(self.case)
        try:
            return self.train(ps)
        finally:
            ps.close()

    def train(self, ps: BatchUpdateParameterServer) -> Trace:
        ps_rref = RRef(ps)
        # Without a limit of its own: every round has one.
        futures = {
            name: rpc.rpc_async(name, run_trainer, args=(ps_rref, self.case, name), timeout=0) for name in ps.trainers
        }
        for name, future in futures.items():
            future.add_done_callback(partial(_trainer_ended, ps, name))
        for _ in futures:
            event = ps.events.get()
            if isinstance(event, RoundFailed):
                raise event
            for step, loss in enumerate(futures[event].value()):
                ps.recorder.put(f"{step:04d}/loss", {event: loss})
        return ps.recorder.trace()


def _trainer_ended(
    ps: BatchUpdateParameterServer,
    name: str,
    future: torch.futures.Future[object],
) -> None:
    try:
        future.value()
    except Exception as error:
        ps.fail(f"{name} failed: {cause_of(error)}")
    ps.ended.add(name)
    ps.events.put(name)


def serve() -> None:
    """What trainers run until ``ps`` calls, and until the common shutdown."""


def roles(case: Case) -> dict[str, Callable[[], object]]:
    first: dict[str, Callable[[], object]] = {"ps": RunPs(case)}
    return {**first, **dict.fromkeys(trainer_names(case), serve)}


@one_thread()
@proven
def train_locally(case: Case, replay: Trace | None = None) -> Trace:
    """The twin: every trainer's gradients one after the other, their mean, one step.

    Raises:
        TraceError: arrival order, three trainers or more, and no trace whose arrivals could be replayed.
    """
    model = initial_model(case)
    optimizer = sgd(case, model)
    names = trainer_names(case)
    trainers = [Trainer(case, name) for name in names]
    batches = [trainer.get_next_batch() for trainer in trainers]
    recorder = Recorder(case, dict(model.named_parameters()))
    for step in range(case.steps):
        order = arrivals_of(case, step, replay)
        buffers = []
        for place, index in enumerate(order):
            m = copy.deepcopy(hand_out(model)).to(trainers[index].device)
            loss = trainers[index].gradients(m, *next(batches[index]))
            recorder.put(f"{step:04d}/loss", {names[index]: loss})
            accumulate(model, [p.grad.cpu() for p in m.parameters() if p.grad is not None], first=place == 0)
            buffers.append([buffer.cpu() for buffer in m.buffers()])
        average(model, case.trainers, buffers)
        optimizer.step()
        record(recorder, step, model, order)
    return recorder.trace()


def rehearse(case: Case) -> Trace:
    """The twin of an exact case before its run: every order of arrival has the bits of the trainers' own."""
    return train_locally(replace(case, accumulation="rank"))


def arrivals_of(case: Case, step: int, replay: Trace | None) -> list[int]:
    """In which order round ``step`` adds its gradients: trainers by rank, from 0."""
    if case.accumulation == "rank":
        return list(range(case.trainers))
    if replay is None:
        raise TraceError("the order of arrival decides bits: pass the run's trace as replay")
    arrivals = replay.tensors.get(f"{step:04d}/arrivals", torch.empty(0, dtype=torch.int64))
    order: list[int] = arrivals.flatten().tolist()
    if arrivals.dtype != torch.int64 or arrivals.dim() != 1 or sorted(order) != list(range(case.trainers)):
        raise TraceError(f"{step:04d}/arrivals: wanted each of 0 to {case.trainers - 1} once, got {shown(arrivals)}")
    return order
