"""Train with a parameter server that updates its model once per round, when every trainer has reported its gradients.

Source: seed 002, first half (batch-updating parameter server), with the launcher that the text leaves out (S2.1).

Roles: ``ps`` holds the model, starts every trainer and returns the trace; ``trainer1`` … compute gradients of their
own batches, (batch_size, 3, image_w, image_h) images with one-hot labels (batch_size, num_classes). In a round each
trainer sends its gradients, and the reply of that call is the updated model: SGD with momentum on the gradients' mean.
The server holds each report until the last one is there. It adds the gradients in ``rank`` order, or in the order of
``arrival`` as published (S2.9). With ``arrival`` the trace records the order, and the twin replays it.

Batch norm: trainers send their buffers too, and the server keeps the buffers' mean. In the published form the server's
model never sees a forward pass, so its running statistics stay as initialised and ``eval()`` is meaningless (S2.8).
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, ClassVar

import torch
import torch.distributed.rpc as rpc
from torch import nn, optim
from torch.distributed.rpc import RRef

from reference.exact.exactness import proven
from reference.roles import Roles, numbered
from reference.rpc.rounds import RoundFailed as RoundFailed
from reference.rpc.rounds import Rounds
from reference.trace.case import choice_field, number_field
from reference.trace.checkpoint import resume, save
from reference.trace.recorder import Recorder, gradients_of, parameters_of
from reference.trace.trace import Trace
from reference.training.data import Batch, random_images
from reference.training.gradients import weighted_sum
from reference.training.models import build_model
from reference.training.placement import device_in_turn, one_thread
from reference.training.training_case import ExactableCase
from reference.training.worker_order import record_arrivals, recorded_arrivals

Tensors = Sequence[torch.Tensor]

# --- The lesson: a server whose calls wait for each other, and hold no thread ----------------------------------------


class BatchUpdateParameterServer:
    """Runs on ``ps``; its calls arrive in RPC threads, several at once.

    Every trainer reports once per round, and a round has as many reports as there are trainers. With another number of
    reports some trainers would wait forever (S2.7).
    """

    def __init__(self, case: Case, model: nn.Module | None = None) -> None:
        self.case = case
        self.model = initial_model(case) if model is None else model
        self.lock = threading.Lock()
        self.trainers = trainer_names(case)
        self.optimizer = sgd(case, self.model)
        self.reports: dict[str, tuple[Tensors, Tensors]] = {}
        self.recorder = Recorder(case, self.model)
        self.saved = resume(model=self.model, optimizer=self.optimizer, trace=self.recorder)
        # Not before, because with it the time of the first round begins.
        self.round: Rounds[nn.Module] = Rounds(self.trainers, case.steps, case.timeout)
        self.round.number = self.saved

    def get_model(self) -> nn.Module:
        """Return a copy of the model (S2.5): the trainers may update it while the reply to another caller is sent."""
        with self.lock:
            return copy.deepcopy(self.model)

    @staticmethod
    @rpc.functions.async_execution  # type: ignore[untyped-decorator]
    def update_and_fetch_model(
        ps_rref: RRef[Any], trainer: str, grads: Tensors, buffers: Tensors
    ) -> torch.futures.Future[nn.Module]:
        """Report one trainer's gradients and buffers; the reply is the model after this round's update.

        The call blocks no RPC thread: every trainer's call returns the round's future, which the last one completes.

        Raises:
            RoundFailed: a trainer is missing, unknown or reports twice, or after the last round, or the update failed.
        """
        self = ps_rref.local_value()
        # If anything in this block fails, the round fails for everybody (S2.6).
        with self.lock, self.round.report(trainer) as (fut, last):
            check_shapes(grads, list(self.model.parameters()))
            check_shapes(buffers, list(self.model.buffers()))
            self.reports[trainer] = grads, buffers
            if last:
                self.save()
                self.update()
        if last:
            # Outside the lock: this serialises every waiting caller's reply in turn (S2.3, S2.4). The reply is the live
            # model (S2.5), which the next update leaves alone until the trainers have it: it waits for all to report
            # again, and a trainer does that once its reply is there.
            self.round.swap_future().set_result(self.model)
            with self.lock:  # while the trainers compute
                self.save()
        return fut  # type: ignore[no-any-return]

    def save(self) -> None:
        """Save the state after the last round, once: the thread that answered may come here after the next report."""
        if self.saved < self.round.number:
            self.saved = self.round.number
            save(self.saved, model=self.model, optimizer=self.optimizer, trace=self.recorder)

    def update(self) -> None:
        """Make one optimizer step on the mean of the gradients."""
        by_arrival = self.case.accumulation == "arrival"
        order = self.round.joined if by_arrival else self.trainers
        average(self.model, [self.reports.pop(trainer) for trainer in order])
        self.optimizer.step()
        self.recorder.step(self.round.number, {}, self.model)
        self.optimizer.zero_grad()
        if by_arrival:
            record_arrivals(self.recorder, self.round.number, [self.trainers.index(trainer) for trainer in order])


class Trainer:
    """Runs on each trainer. The twin uses it without a server."""

    def __init__(self, case: Case, name: str, ps_rref: RRef[Any] | None = None) -> None:
        self.case, self.name, self.ps_rref = case, name, ps_rref
        self.device = device_in_turn(case.device, trainer_names(case).index(name))
        self.loss_fn: Callable[..., torch.Tensor] = weighted_sum if case.is_exact else nn.MSELoss()
        self.recorder = Recorder(case, {})

    def get_next_batch(self) -> Iterator[Batch]:
        for inputs, labels in batches(self.case, self.name):
            yield inputs.to(self.device), labels.to(self.device)

    def train(self) -> Mapping[str, torch.Tensor]:
        """Train for all rounds, and return this trainer's part of the trace, its losses.

        Raises:
            RuntimeError: the server's `RoundFailed`, or the server is gone.
        """
        assert self.ps_rref is not None
        case, start = self.case, resume(trace=self.recorder)
        m = self.ps_rref.rpc_sync(timeout=case.timeout).get_model().to(self.device)
        for step, (inputs, labels) in islice(enumerate(self.get_next_batch()), start, None):
            loss = self.gradients(m, inputs, labels)
            # A plain call, which waits for the round. That its target returns a future makes no difference (S2.10).
            m = rpc.rpc_sync(
                self.ps_rref.owner(),
                BatchUpdateParameterServer.update_and_fetch_model,
                args=(self.ps_rref, self.name, *report_of(m)),
                timeout=case.reply_timeout,
            ).to(self.device)
            self.recorder.step(step, {self.name: loss}, {})
            save(step + 1, trace=self.recorder)
        return self.recorder.tensors

    def gradients(self, m: nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the loss, and put its gradients into the model's ``.grad``, which must be empty before."""
        loss = self.loss_fn(m(inputs), labels)
        loss.backward()
        return loss.detach().cpu()


def batches(case: Case, trainer: str) -> Iterator[Batch]:
    """Draw per round images (batch_size, 3, image_w, image_h) and one-hot labels (batch_size, num_classes)."""
    return random_images(case, trainer, (case.batch_size, 3, case.image_w, case.image_h), case.num_classes)


def check_shapes(got: Tensors, wanted: Tensors) -> None:
    """Raise ValueError unless ``got`` has as many tensors as ``wanted``, each of the same shape."""
    if len(got) != len(wanted):
        raise ValueError(f"{len(got)} tensors, wanted {len(wanted)}")
    for index, (tensor, like) in enumerate(zip(got, wanted, strict=True)):
        if tensor.shape != like.shape:
            raise ValueError(f"tensor {index} has shape {tuple(tensor.shape)}, wanted {tuple(like.shape)}")


def report_of(model: nn.Module) -> tuple[Tensors, Tensors]:
    """Make a trainer's report: its model's gradients and buffers, on the CPU."""
    return [p.grad.cpu() for p in model.parameters() if p.grad is not None], [b.cpu() for b in model.buffers()]


def average(model: nn.Module, reports: Sequence[tuple[Tensors, Tensors]]) -> None:
    """Set gradients and buffers to the mean of those that are reported, added in this order.

    After `zero_grad`, which leaves None, the first trainer's gradients become ``.grad`` (S2.2).
    """
    grads, buffers = zip(*reports, strict=True)
    for p, *each in zip(model.parameters(), *grads, strict=True):
        p.grad = mean(each[0], each[1:])
    for buffer, *each in zip(model.buffers(), *buffers, strict=True):
        buffer.copy_(mean(each[0].clone(), each[1:]) if buffer.is_floating_point() else each[0])


def mean(total: torch.Tensor, others: Tensors) -> torch.Tensor:
    """Add the ``others`` to ``total``, and divide it. All passes over a tensor follow each other, while caches have it;
    to divide by one would be a pass for nothing."""
    for other in others:
        total += other
    if others:
        total /= 1 + len(others)
    return total


# --- Roles and Case --------------------------------------------------------------------------------------------------


def run_trainer(ps_rref: RRef[Any], case: Case, name: str) -> Mapping[str, torch.Tensor]:
    """Train for all rounds. Runs on a trainer, called by ``ps``."""
    return Trainer(case, name, ps_rref).train()


def run_ps(case: Case) -> Trace:
    """Serve the model, start every trainer and collect the trace. Runs on ``ps``.

    Raises:
        RoundFailed: a trainer was lost or is missing, or failed. Says which, as soon as it is known.
    """
    ps = BatchUpdateParameterServer(case)
    with closing(ps.round):
        ps_rref = RRef(ps)
        futures = {
            # Without a limit of its own: every round has one.
            name: rpc.rpc_async(name, run_trainer, args=(ps_rref, case, name), timeout=0)
            for name in ps.trainers
        }
        for tensors in ps.round.gather(futures).values():
            ps.recorder.tensors.update(tensors)
        return ps.recorder.trace()


def roles(case: Case) -> Roles:
    return Roles({"ps": partial(run_ps, case)}, serving=trainer_names(case))


@dataclass(frozen=True)
class Case(ExactableCase):
    """The tutorial's numbers: ResNet50, 5 trainers, 6 rounds of 20 images of 64 × 64, 30 classes."""

    dtype: str = choice_field("float32", "float64", "bfloat16", help="dtype of parameters and gradients")
    steps: int = number_field(6, "rounds: updates of the model", at_least=1)
    trainers: int = number_field(5, "trainers, and reports to a round", at_least=1, at_most=255, scales=True)
    model: str = choice_field("resnet50", "convnet", "mlp", help="what is trained")
    batch_size: int = number_field(20, "images of a trainer's batch", at_least=2, at_most=65536)
    image_w: int = number_field(64, "width of an image in pixels", at_least=4, at_most=4096)
    image_h: int = number_field(64, "height of an image in pixels", at_least=4, at_most=4096)
    num_classes: int = number_field(30, "classes", at_least=2, at_most=65536)
    lr: float = number_field(0.001, "learning rate of SGD", at_least=0.0)
    momentum: float = number_field(0.9, "momentum of SGD", at_least=0.0)
    accumulation: str = choice_field("rank", "arrival", help="in which order a round's gradients are added")
    device: str = choice_field("cpu", "cuda", help="where trainers compute; the server stays on the CPU", result=False)

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
    return numbered("trainer", case.trainers)


def initial_model(case: Case) -> nn.Module:
    """Build the model that the server starts with, on the CPU."""
    size = {"image_w": case.image_w, "image_h": case.image_h, "num_classes": case.num_classes}
    return build_model(case.model, **size, seed=case.seed, dtype=case.dtype, exact=case.is_exact)


def sgd(case: Case, model: nn.Module) -> optim.SGD:
    """Make SGD with momentum in one pass over memory (``fused``), for the server and for the twin.

    Not in bfloat16, of which torch's fused SGD leaves most numbers as they are (upstream issue 191763).
    """
    return optim.SGD(model.parameters(), lr=case.lr, momentum=case.momentum, fused=case.dtype != "bfloat16")


# --- The twin: the same in one process -------------------------------------------------------------------------------


@one_thread()
@proven
def train_locally(case: Case, replay: Trace | None = None) -> Trace:
    """Compute every trainer's gradients one after the other, and make one step on their mean.

    Raises:
        TraceError: arrival order, and no trace whose arrivals could be replayed.
    """
    model = initial_model(case)
    optimizer = sgd(case, model)
    names = trainer_names(case)
    trainers = [Trainer(case, name) for name in names]
    batches = [trainer.get_next_batch() for trainer in trainers]
    recorder = Recorder(case, model)
    for step in range(case.steps):
        by_arrival = case.accumulation == "arrival"
        order = recorded_arrivals(replay, step, case.trainers) if by_arrival else list(range(case.trainers))
        reports = []
        for index in order:
            m = copy.deepcopy(model).to(trainers[index].device)
            with recorder.outputs(step, names[index], m):
                loss = trainers[index].gradients(m, *next(batches[index]))
            recorder.put(f"{step:04d}/loss", {names[index]: loss})
            reports.append(report_of(m))
            recorder.detail(step, f"part/{names[index]}", partial(gradients_of, parameters_of(m)))
        average(model, reports)
        recorder.before_update(step, model)
        optimizer.step()
        recorder.step(step, {}, model)
        optimizer.zero_grad()
        if by_arrival:
            record_arrivals(recorder, step, order)
    return recorder.trace()


def rehearse(case: Case) -> Trace:
    """The twin of an exact case before its run: every order of arrival has the bits of the trainers' own."""
    return train_locally(replace(case, accumulation="rank"))
