"""Train ResNet50 as a pipeline: two shards on two workers, fed with micro-batches.

Source: seed 004. The published program splits a batch into micro-batches of ``num_split`` images instead of into
``num_split`` micro-batches (S4.3), and its threads deadlock if there are too many micro-batches (S4.4).

Roles: ``master`` has the data, images (batch_size, 3, image_h, image_w) with one-hot labels (batch_size,
num_classes), drives forward, distributed backward and the distributed optimizer, and returns the trace; ``worker1``
and ``worker2`` own a shard each. Batch norm normalises every micro-batch by itself, so the result depends on
``num_split`` (S4.5); the twin runs the same micro-batches through the same two shards, in one process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, ClassVar

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from torch import nn, optim
from torch.distributed.optim import DistributedOptimizer
from torch.distributed.rpc import RRef

from reference.exact.exactness import proven
from reference.roles import Roles, numbered
from reference.rpc.shard import Named, Shard, joined
from reference.trace import checkpoint
from reference.trace.case import choice_field, number_field
from reference.trace.recorder import Recorder
from reference.trace.trace import Trace
from reference.training.data import Batch, random_images
from reference.training.gradients import weighted_sum
from reference.training.models import FEATURES, ResNetBase, initialise, mlp_half
from reference.training.placement import device_in_turn, one_thread
from reference.training.rng import build_seeded
from reference.training.training_case import ExactableCase

WORKERS = numbered("worker", 2)

# --- The lesson, steps 1 and 2: two shards, and the module that joins them -------------------------------------------


class ResNetShard1(Shard):
    """The first half: images (N, 3, H, W) to features (N, 512, H / 8, W / 8). Runs on worker1."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.seq = ResNetBase(64).first_half()
        initialise(self)

    def forward(self, x_rref: RRef[torch.Tensor], number: int) -> torch.Tensor:
        """Compute micro-batch ``number``, counted from 0 over all batches. Raises as `Shard.turn`."""
        x = x_rref.to_here().to(self.device)
        with self.turn(number):  # the published lock lets micro-batches in as they come (S4.6)
            out = self.seq(x)
        # As published the features go through the CPU; since device maps exist they need not (S4.11).
        return out.cpu() if self.to_cpu else out  # type: ignore[no-any-return]


class ResNetShard2(Shard):
    """The second half: features (N, 512, H / 8, W / 8) to scores (N, num_classes). Runs on worker2."""

    def __init__(self, num_classes: int, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.seq = ResNetBase(512).second_half()
        self.fc = nn.Linear(FEATURES, num_classes)
        initialise(self)

    def forward(self, x_rref: RRef[torch.Tensor], number: int) -> torch.Tensor:
        """Compute micro-batch ``number``. Raises as `Shard.turn`."""
        x = x_rref.to_here().to(self.device)
        with self.turn(number):
            out = self.fc(torch.flatten(self.seq(x), 1))
        return out.cpu()  # type: ignore[no-any-return]


class SequentialShard(Shard):
    """A shard of any module, for instance half of an ``nn.Sequential``. Runs on either worker."""

    def __init__(self, make: Callable[[], nn.Module], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.seq = make().to(self.device)

    def forward(self, x_rref: RRef[torch.Tensor], number: int) -> torch.Tensor:
        x = x_rref.to_here().to(self.device)
        with self.turn(number):
            out = self.seq(x)
        return out.cpu() if self.to_cpu else out  # type: ignore[no-any-return]


class DistResNet50(nn.Module):
    """Runs on the master: two shards on two workers, fed with ``num_split`` micro-batches of every batch.

    ``shards`` are importable functions, called on the first and on the second worker, that make the `Shard` of any two
    halves of a model.
    """

    def __init__(self, num_split: int, workers: Sequence[str], shards: Sequence[Callable[..., Shard]]) -> None:
        super().__init__()
        self.num_split = num_split
        self.number = 0
        self.p1_rref = rpc.remote(workers[0], shards[0])
        self.p2_rref = rpc.remote(workers[1], shards[1])
        # Asked for now, because an RRef proxy's first call asks the owner for the object's type and continues in a
        # thread without an autograd context. If `forward` made that call, it would silently lose the gradients.
        self._parameter_rrefs = [*self.p1_rref.remote().parameter_rrefs().to_here()]
        self._parameter_rrefs += self.p2_rref.remote().parameter_rrefs().to_here()

    def forward(self, xs: torch.Tensor) -> torch.Tensor:
        """Return outputs (batch, …) for ``xs`` (batch, …), split into ``num_split`` parts of nearly equal size.

        The published code splits into parts of ``num_split`` images (S4.3). Both calls return at once, so all parts are
        on their way before the first is computed; the shards compute them in the order of their numbers.
        """
        out_futures = []
        for x in xs.tensor_split(self.num_split):
            x_rref = RRef(x)
            y_rref = self.p1_rref.remote().forward(x_rref, self.number)
            z_fut = self.p2_rref.rpc_async().forward(y_rref, self.number)
            out_futures.append(z_fut)
            self.number += 1
        return torch.cat(torch.futures.wait_all(out_futures))

    def parameter_rrefs(self) -> list[RRef[Any]]:
        """RRefs to all parameters of both shards, for the distributed optimizer."""
        return self._parameter_rrefs

    def values(self) -> tuple[Named, Named]:
        """Parameters and buffers of both shards, as ``shard1.…`` and ``shard2.…``."""
        parameters, buffers = zip(*(rref.rpc_sync().values() for rref in (self.p1_rref, self.p2_rref)), strict=True)
        return joined(*parameters), joined(*buffers)

    def resume(self) -> None:
        """Let both shards go on from their last checkpoints."""
        for rref in (self.p1_rref, self.p2_rref):
            rref.rpc_sync().resume()

    def save(self, step: int) -> None:
        """Let both shards save their state after ``step`` steps."""
        torch.futures.wait_all([rref.rpc_async().save(step) for rref in (self.p1_rref, self.p2_rref)])

    def await_gradients(self, context_id: int) -> None:
        """Wait until both shards have their gradients, because the backward pass may return before (S4.14).

        Raises:
            RuntimeError: a shard's TimeoutError; or that shard did not answer.
        """
        limit = rpc.get_rpc_timeout() + 5  # type: ignore[attr-defined]  # the shard's own error comes first
        shards = (self.p1_rref, self.p2_rref)
        torch.futures.wait_all([rref.rpc_async(timeout=limit).await_gradients(context_id) for rref in shards])

    def gradients(self, context_id: int) -> Named:
        """The gradients of both shards in that context, once `await_gradients` has returned."""
        return joined(*(rref.rpc_sync().gradients(context_id) for rref in (self.p1_rref, self.p2_rref)))


# --- The lesson, steps 3 and 4: the training loop and the roles ------------------------------------------------------


def run_master(case: Case) -> Trace:
    """Run the master: train for all steps and return the trace."""
    model = DistResNet50(case.num_split, WORKERS, [partial(make_shard, case, half) for half in (1, 2)])
    loss_fn = loss_function(case)
    opt = DistributedOptimizer(optim.SGD, model.parameter_rrefs(), lr=case.lr)
    recorder = Recorder(case, model.values()[0])
    start = checkpoint.resume(trace=recorder)
    if start:
        model.resume()
    for step, (inputs, labels) in islice(enumerate(batches(case)), start, None):
        with dist_autograd.context() as context_id:
            loss = loss_fn(model(inputs), labels)
            dist_autograd.backward(context_id, [loss])  # type: ignore[attr-defined]
            model.await_gradients(context_id)
            gradients = model.gradients(context_id) if recorder.every else {}
            opt.step(context_id)
        parameters, buffers = model.values() if recorder.wants(step) else ({}, {})
        recorder.step(step, {"master": loss}, parameters, gradients)
        recorder.put(f"{step:04d}/buffer", buffers)
        if checkpoint.due(step + 1):
            model.save(step + 1)
            checkpoint.save(step + 1, trace=recorder)
    return recorder.trace()


def roles(case: Case) -> Roles:
    """Make the roles. A batch may take long, so calls have the case's timeout; a direct fetch needs a device map."""
    options: dict[str, Any] = {"num_worker_threads": case.rpc_threads, "rpc_timeout": case.timeout}
    each = {}
    if case.transfer == "direct":
        options["device_maps"] = {}
        each = {"worker2": {"device_maps": {"worker1": {device_of(case, 2): device_of(case, 1)}}}}
    return Roles({"master": partial(run_master, case)}, options, each, serving=WORKERS)


# --- Shards, data and loss, for the lesson and the twin --------------------------------------------------------------


def make_shard(case: Case, half: int) -> Shard:
    """Build one shard, on its worker or in the twin: with the same numbers in both, and in float32 and float64."""
    if case.model == "mlp":
        sizes = {"inputs": 3 * case.image_w * case.image_h, "width": case.width, "outputs": case.num_classes}
        kind: Callable[..., Shard] = partial(SequentialShard, partial(mlp_half, half, **sizes, depth=case.depth))
    else:
        kind = ResNetShard1 if half == 1 else partial(ResNetShard2, case.num_classes)
    how = {"num_split": case.num_split, "timeout": case.timeout, "to_cpu": case.transfer == "cpu" or half == 2}
    device, drawn = device_of(case, half), {"name": f"shard{half}", "integers": int(case.is_exact)}
    shard: Shard = build_seeded(kind, device=device, **how, seed=case.seed, dtype=case.dtype, **drawn)  # type: ignore[arg-type]
    return shard.to(device)


def device_of(case: Case, half: int) -> str:
    """The device of a half: its own GPU if there are two."""
    return str(device_in_turn(case.device, half - 1))


def batches(case: Case) -> Iterator[Batch]:
    """Draw each step's images (batch_size, 3, image_h, image_w) and one-hot labels (batch_size, num_classes)."""
    return random_images(case, "master", (case.batch_size, 3, case.image_h, case.image_w), case.num_classes)


def loss_function(case: Case) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    return weighted_sum if case.is_exact else nn.MSELoss()


# --- Case ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case(ExactableCase):
    """The tutorial's numbers: 3 batches of 120 images of 128 × 128, 1000 classes; it tries 1, 2, 4 and 8 splits."""

    steps: int = number_field(3, "number of batches, each with one optimizer step", at_least=1)
    num_split: int = number_field(4, "number of micro-batches in a batch", at_least=1, at_most=1024)
    model: str = choice_field("resnet50", "mlp", help="the model that is cut in two")
    batch_size: int = number_field(120, "number of images in a batch", at_least=1, at_most=65536)
    image_w: int = number_field(128, "width of an image in pixels", at_least=1, at_most=4096)
    image_h: int = number_field(128, "height of an image in pixels", at_least=1, at_most=4096)
    num_classes: int = number_field(1000, "number of classes", at_least=2, at_most=65536)
    depth: int = number_field(1, "number of linear layers in each half of the mlp", at_least=1, at_most=64)
    width: int = number_field(8, "number of units in the mlp's hidden layers", at_least=1, at_most=65536)
    lr: float = number_field(0.05, "learning rate of SGD", at_least=0.0)
    rpc_threads: int = number_field(128, "RPC threads in each process", at_least=2, at_most=2048, result=False)
    device: str = choice_field(
        "cpu", "cuda", help="device of the shards: cuda uses two GPUs if there are two, otherwise one", result=False
    )
    transfer: str = choice_field(
        "cpu",
        "direct",
        help="how tensors go from shard to shard: through the CPU, or directly from GPU to GPU",
        result=False,
    )

    EXACT: ClassVar[Mapping[str, Any]] = {"dtype": "float64", "model": "mlp", "lr": 0.125, "steps": 2, "depth": 2} | {
        "batch_size": 8,
        "image_w": 8,
        "image_h": 8,
        "num_classes": 10,
    }

    def validate(self) -> None:
        self.require(self.num_split <= self.batch_size, "num_split", f"at most batch_size, {self.batch_size}")
        # A fetch blocks one thread per micro-batch, and its answer needs one more (S4.4).
        self.require(self.rpc_threads > self.num_split, "rpc_threads", f"more than num_split, {self.num_split}")
        self.require(self.transfer == "cpu" or self.device == "cuda", "transfer", "'cpu' where device is 'cpu'")
        self.require_exact("lr", model="mlp")
        if self.model == "resnet50":
            for name in ("depth", "width"):
                usual = getattr(Case, name)
                self.require(getattr(self, name) == usual, name, f"{usual} where model is 'resnet50'")
            smallest = self.batch_size // self.num_split * -(-self.image_w // 32) * -(-self.image_h // 32)
            small = "batch norm needs two values, and images this small have one"  # S4.7
            self.require(smallest > 1 or self.batch_size > 1, "batch_size", f"at least 2: {small}")
            self.require(smallest > 1, "num_split", f"at most {self.batch_size // 2}: {small}")


# --- The twin: the same in one process -------------------------------------------------------------------------------


@one_thread()
@proven
def train_locally(case: Case, replay: Trace | None = None) -> Trace:
    """The twin: the same micro-batches through the same two shards, then plain autograd and plain SGD.

    Raises:
        NotExact: an operation of an exact case rounds.
    """
    shards = [make_shard(case, half) for half in (1, 2)]
    loss_fn = loss_function(case)
    opt = optim.SGD([p for shard in shards for p in shard.parameters()], lr=case.lr)
    model = nn.ModuleDict({"shard1": shards[0], "shard2": shards[1]})
    recorder = Recorder(case, model)
    for step, (inputs, labels) in enumerate(batches(case)):
        opt.zero_grad()
        outputs = {}
        for number, x in enumerate(inputs.tensor_split(case.num_split), start=1):
            with recorder.outputs(step, f"micro-batch{number}", model):
                outputs[f"micro-batch{number}"] = forward(shards, x)
        loss = loss_fn(torch.cat([*outputs.values()]), labels)
        for name, output in outputs.items():
            recorder.detail(step, f"part/{name}", partial(part_of, loss, output, model))
        loss.backward()
        recorder.before_update(step, model)
        opt.step()
        recorder.step(step, {"master": loss}, model)
    return recorder.trace()


def part_of(loss: torch.Tensor, output: torch.Tensor, model: nn.Module) -> Named:
    """The part of the gradients that comes through one micro-batch's output."""
    parameters = dict(model.named_parameters())
    (back,) = torch.autograd.grad(loss, output, retain_graph=True)
    found = torch.autograd.grad(output, [*parameters.values()], back, retain_graph=True)
    return dict(zip(parameters, found, strict=True))


def forward(shards: Sequence[Any], x: torch.Tensor) -> torch.Tensor:
    """Run one micro-batch through both shards' layers in this process."""
    first, second = shards
    x = second.seq(first.seq(x.to(first.device)).to(second.device))
    x = second.fc(torch.flatten(x, 1)) if isinstance(second, ResNetShard2) else x
    return x.cpu()
