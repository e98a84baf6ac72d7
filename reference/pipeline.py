"""Pipeline parallelism: ResNet50 in two shards on two workers, fed with micro-batches.

Source: seed 004. The published program splits a batch into micro-batches of ``num_split`` images instead of into
``num_split`` micro-batches (S4.3), and lets its own threads deadlock from some number on (S4.4).

Roles: ``master`` has the data, images (batch_size, 3, image_h, image_w) with one-hot labels (batch_size,
num_classes), drives forward, distributed backward and the distributed optimizer, and returns the trace; ``worker1``
and ``worker2`` own a shard each. Batch norm normalises every micro-batch by itself, so the result depends on
``num_split`` (S4.5); the twin runs the same micro-batches through the same two shards, in one process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
import torch.distributed.autograd as dist_autograd
from torch import nn, optim
from torch.distributed.optim import DistributedOptimizer

from reference.exact.exactness import proven
from reference.roles import Roles
from reference.rpc.shard import DistPipeline, Named, SequentialShard, Shard, joined, on_cpu
from reference.trace.case import choice, number
from reference.trace.trace import Recorder, Trace
from reference.training.gradients import weighted_sum
from reference.training.seeding import generator, seed_for
from reference.training.threads import one_thread
from reference.training.training_case import ExactableCase
from reference.training.vision import Bottleneck

WORKERS = ("worker1", "worker2")


@dataclass(frozen=True)
class Case(ExactableCase):
    """The tutorial's numbers: 3 batches of 120 images of 128 × 128, 1000 classes; it tries 1, 2, 4 and 8 splits."""

    steps: int = number(3, "batches, each with one optimizer step", at_least=1)
    num_split: int = number(4, "micro-batches of a batch", at_least=1, at_most=1024)
    model: str = choice("resnet50", "mlp", help="what is cut in two")
    batch_size: int = number(120, "images of a batch", at_least=1, at_most=65536)
    image_w: int = number(128, "width of an image in pixels", at_least=1, at_most=4096)
    image_h: int = number(128, "height of an image in pixels", at_least=1, at_most=4096)
    num_classes: int = number(1000, "classes", at_least=2, at_most=65536)
    depth: int = number(1, "linear layers of each half of the mlp", at_least=1, at_most=64)
    width: int = number(8, "units of the mlp's hidden layers", at_least=1, at_most=65536)
    lr: float = number(0.05, "learning rate of SGD", at_least=0.0)
    rpc_threads: int = number(128, "RPC threads of each process", at_least=2, at_most=2048, result=False)
    device: str = choice(
        "cpu", "cuda", help="where shards compute: the first two GPUs, or both on the only one", result=False
    )
    transfer: str = choice(
        "cpu", "direct", help="from shard to shard through the CPU, or from GPU to GPU", result=False
    )

    EXACT: ClassVar[Mapping[str, Any]] = {"dtype": "float64", "model": "mlp", "lr": 0.125, "steps": 2, "depth": 2} | {
        "batch_size": 8,
        "image_w": 8,
        "image_h": 8,
        "num_classes": 10,
    }

    def validate(self) -> None:
        self.require(self.num_split <= self.batch_size, "num_split", f"at most batch_size, {self.batch_size}")
        # A fetch blocks a thread for each micro-batch, and its answer needs one more (S4.4).
        self.require(self.rpc_threads > self.num_split, "rpc_threads", f"more than num_split, {self.num_split}")
        self.require(self.transfer == "cpu" or self.device == "cuda", "transfer", "'cpu' where device is 'cpu'")
        if self.model == "resnet50":
            smallest = self.batch_size // self.num_split * -(-self.image_w // 32) * -(-self.image_h // 32)
            wanted = f"at most {self.batch_size // 2}: batch norm needs two values, and images this small have one"
            self.require(smallest > 1, "num_split", wanted)  # S4.7
        self.require_exact("lr", model="mlp")


def conv1x1(in_planes: int, out_planes: int, stride: int = 1) -> nn.Conv2d:
    """1 × 1 convolution, (N, in_planes, H, W) to (N, out_planes, H / stride, W / stride)."""
    return nn.Conv2d(in_planes, out_planes, kernel_size=1, stride=stride, bias=False)


class ResNetBase(Shard):
    """What both shards of a ResNet have in common: how a layer of blocks is built."""

    def __init__(self, block: type[Bottleneck], inplanes: int, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._block = block
        self._norm_layer = nn.BatchNorm2d
        self.inplanes = inplanes

    def _make_layer(self, planes: int, blocks: int, stride: int = 1) -> nn.Sequential:
        """``blocks`` blocks, the first with ``stride``; their output has planes × expansion channels."""
        outplanes = planes * self._block.expansion
        downsample = None
        if stride != 1 or self.inplanes != outplanes:
            downsample = nn.Sequential(conv1x1(self.inplanes, outplanes, stride), self._norm_layer(outplanes))
        layers = [self._block(self.inplanes, planes, stride, downsample)]
        self.inplanes = outplanes
        layers += [self._block(self.inplanes, planes) for _ in range(1, blocks)]
        return nn.Sequential(*layers)

    def _initialise(self) -> None:
        """Published: in the first shard only (S4.9)."""
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")


class ResNetShard1(ResNetBase):
    """The first half: images (N, 3, H, W) to features (N, 512, H / 8, W / 8). Runs on worker1."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(Bottleneck, 64, *args, **kwargs)
        self.seq = nn.Sequential(
            nn.Conv2d(3, self.inplanes, kernel_size=7, stride=2, padding=3, bias=False),
            self._norm_layer(self.inplanes),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2, padding=1),
            self._make_layer(64, 3),
            self._make_layer(128, 4, stride=2),
        )
        self._initialise()

    def compute(self, x: torch.Tensor) -> torch.Tensor:
        return self.seq(x)  # type: ignore[no-any-return]


class ResNetShard2(ResNetBase):
    """The second half: features (N, 512, H / 8, W / 8) to scores (N, num_classes). Runs on worker2."""

    def __init__(self, num_classes: int, *args: Any, **kwargs: Any) -> None:
        super().__init__(Bottleneck, 512, *args, **kwargs)
        self.seq = nn.Sequential(
            self._make_layer(256, 6, stride=2),
            self._make_layer(512, 3, stride=2),
            nn.AdaptiveAvgPool2d((1, 1)),
        )
        self.fc = nn.Linear(512 * self._block.expansion, num_classes)
        self._initialise()

    def compute(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(torch.flatten(self.seq(x), 1))  # type: ignore[no-any-return]


def mlp_half(case: Case, half: int) -> nn.Sequential:
    """Linear layers and ReLU, for exact cases: ``half`` 1 ends with a ReLU, half 2 with the scores."""
    inputs = 3 * case.image_w * case.image_h if half == 1 else case.width
    layers: list[nn.Module] = [nn.Flatten()] if half == 1 else []
    for place in range(case.depth):
        last = half == 2 and place == case.depth - 1
        layers += [nn.Linear(inputs, case.num_classes if last else case.width), *([] if last else [nn.ReLU()])]
        inputs = case.width
    return nn.Sequential(*layers)


def make_shard(case: Case, half: int) -> Shard:
    """Runs on the half's worker, and in the twin: the same numbers in both, and in float32 and float64."""
    how = {"num_split": case.num_split, "timeout": case.timeout, "to_cpu": case.transfer == "cpu" or half == 2}
    device = device_of(case, half)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed_for(case.seed, f"shard{half}"))
        if case.model == "mlp":
            shard: Shard = SequentialShard(partial(mlp_half, case, half), device=device, **how)
        elif half == 1:
            shard = ResNetShard1(device=device, **how)
        else:
            shard = ResNetShard2(case.num_classes, device=device, **how)
        if case.arithmetic == "exact":
            for parameter in shard.parameters():
                parameter.data.copy_(torch.randint(-1, 2, parameter.shape))
    return shard.to(device, getattr(torch, case.dtype))


def device_of(case: Case, half: int) -> str:
    """The half's own GPU where there are two."""
    if case.device == "cpu":
        return "cpu"
    return f"cuda:{min(half, torch.cuda.device_count()) - 1}"


class DistResNet50(DistPipeline):
    """Runs on the master: the case's model, its halves on two workers."""

    def __init__(self, num_split: int, workers: tuple[str, str], case: Case) -> None:
        super().__init__(num_split, workers, [partial(make_shard, case, half) for half in (1, 2)])


def batches(case: Case) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Per step, images (batch_size, 3, image_h, image_w) and one-hot labels (batch_size, num_classes), on the CPU."""
    draws, dtype = generator(case.seed, "master"), getattr(torch, case.dtype)
    one_hot_indices = torch.randint(case.num_classes, (case.batch_size, 1), generator=draws)
    shape = (case.batch_size, 3, case.image_h, case.image_w)
    labels = torch.zeros(case.batch_size, case.num_classes).scatter_(1, one_hot_indices, 1)
    for _ in range(case.steps):
        if case.arithmetic == "exact":
            inputs = torch.randint(-1, 2, shape, generator=draws).float()
        else:
            inputs = torch.randn(shape, generator=draws)
        yield inputs.to(dtype), labels.to(dtype)


def loss_function(case: Case) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    return weighted_sum if case.arithmetic == "exact" else nn.MSELoss()


def record(recorder: Recorder, step: int, loss: torch.Tensor, gradients: Named, values: tuple[Named, Named]) -> None:
    """Put one step into the trace: batch norm's buffers as well."""
    recorder.step(step, {"master": loss}, values[0], gradients)
    recorder.put(f"{step:04d}/buffer", values[1])


@dataclass(frozen=True)
class RunMaster:
    """What the master runs."""

    case: Case

    def __call__(self) -> Trace:
        case = self.case
        model = DistResNet50(case.num_split, WORKERS, case)
        loss_fn = loss_function(case)
        opt = DistributedOptimizer(optim.SGD, model.parameter_rrefs(), lr=case.lr)
        recorder = Recorder(case, model.values()[0])
        for step, (inputs, labels) in enumerate(batches(case)):
            with dist_autograd.context() as context_id:
                loss = loss_fn(model(inputs), labels)
                dist_autograd.backward(context_id, [loss])  # type: ignore[attr-defined]
                gradients = model.gradients(context_id) if case.record == "every" else {}
                opt.step(context_id)
            wanted = case.record == "every" or step == case.steps - 1
            if wanted:
                record(recorder, step, loss, gradients, model.values())
            else:
                recorder.step(step, {"master": loss}, {})
        return recorder.trace()


def serve() -> None:
    """What the workers run: they compute on request until the common shutdown."""


def roles(case: Case) -> Roles:
    """A batch may take long: calls have the case's timeout. From GPU to GPU, worker2 fetches from worker1."""
    options: dict[str, Any] = {"num_worker_threads": case.rpc_threads, "rpc_timeout": case.timeout}
    each = {}
    if case.transfer == "direct":
        options["device_maps"] = {}
        each = {"worker2": {"device_maps": {"worker1": {device_of(case, 2): device_of(case, 1)}}}}
    return Roles({"master": RunMaster(case), **dict.fromkeys(WORKERS, serve)}, options, each)


@one_thread()
@proven
def train_locally(case: Case, replay: Trace | None = None) -> Trace:
    """The twin: the same micro-batches through the same two shards, then plain autograd and plain SGD.

    Raises:
        NotExact: exact arithmetic that would round.
    """
    shards = [make_shard(case, half) for half in (1, 2)]
    loss_fn = loss_function(case)
    opt = optim.SGD([p for shard in shards for p in shard.parameters()], lr=case.lr)
    recorder = Recorder(case, values_of(shards)[0])
    for step, (inputs, labels) in enumerate(batches(case)):
        opt.zero_grad()
        outputs = torch.cat([forward(shards, x) for x in inputs.tensor_split(case.num_split)])
        loss = loss_fn(outputs, labels)
        loss.backward()
        gradients = [on_cpu({n: p.grad for n, p in s.named_parameters() if p.grad is not None}) for s in shards]
        opt.step()
        if case.record == "every" or step == case.steps - 1:
            named = joined((gradients[0], {}), (gradients[1], {}))[0]
            record(recorder, step, loss, named, values_of(shards))
        else:
            recorder.step(step, {"master": loss}, {})
    return recorder.trace()


def forward(shards: list[Shard], x: torch.Tensor) -> torch.Tensor:
    """One micro-batch through both shards, here."""
    for shard in shards:
        x = shard(x.to(shard.device))
    return x.cpu()


def values_of(shards: list[Shard]) -> tuple[Named, Named]:
    return joined(*(shard.values() for shard in shards))
