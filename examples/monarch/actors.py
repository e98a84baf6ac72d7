"""``parameter_server``, ``batch_parameter_server`` and ``pipeline`` with Monarch's actors.

    pip install torchmonarch
    python -m reference conform run suite --out results -- python examples/monarch/actors.py

It imports nothing of this package. Without Monarch it skips every case.
"""

from __future__ import annotations

import json
import sys
from collections import deque
from pathlib import Path
from typing import Any, NoReturn

import torch
from safetensors.torch import load_file, save_file
from torch import nn

Case = dict[str, Any]
Tensors = dict[str, torch.Tensor]
PULL = 0


def skip(reason: str) -> NoReturn:
    Path(sys.argv[2], "result.json").write_text(json.dumps({"status": "skipped", "reason": reason}))
    sys.exit()


try:
    from monarch.actor import Actor, endpoint, this_host
except ImportError as error:
    skip(f"Monarch is not installed ({error})")


class ParameterServer(Actor):
    """Holds the parameters and makes all updates."""

    def __init__(self, initial: Tensors, lr: float, momentum: float) -> None:
        self.parameters = {name: nn.Parameter(tensor.clone()) for name, tensor in initial.items()}
        self.optimizer = torch.optim.SGD(self.parameters.values(), lr=lr, momentum=momentum)

    @endpoint
    def pull(self) -> Tensors:
        return values(self.parameters)

    @endpoint
    def push(self, reports: list[Tensors]) -> tuple[Tensors, Tensors]:
        """Make one update of the mean of all reports; returns the gradients and the new parameters."""
        mean = {name: sum(report[name] for report in reports) / len(reports) for name in self.parameters}
        for name, parameter in self.parameters.items():
            parameter.grad = mean[name]
        self.optimizer.step()
        return mean, values(self.parameters)


class Worker(Actor):
    """Computes loss and gradients of a batch."""

    def __init__(self, case: Case, linear: bool) -> None:
        torch.set_num_threads(1)
        self.case, self.linear = case, linear

    @endpoint
    def compute(self, parameters: Tensors, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, Tensors]:
        leaves = {name: tensor.clone().requires_grad_() for name, tensor in parameters.items()}
        if self.linear:
            scores = nn.functional.linear(x, leaves["weight"], leaves["bias"])
        else:
            hidden = nn.functional.linear(x.flatten(1), leaves["1.weight"], leaves["1.bias"]).relu()
            scores = nn.functional.linear(hidden, leaves["3.weight"], leaves["3.bias"])
        loss = share_of_loss(self.case, scores, y, 0 if self.linear else 1, scores.numel())
        loss.backward()
        return loss.detach(), {name: leaf.grad for name, leaf in leaves.items() if leaf.grad is not None}


class Stage(Actor):
    """Holds one half of the pipeline's layers, and the graphs of the micro-batches that are on their way."""

    def __init__(self, case: Case, initial: Tensors, half: int) -> None:
        torch.set_num_threads(1)
        self.case, depth = case, case["depth"]
        prefix = f"shard{half + 1}.seq."
        mine = {name.removeprefix(prefix): tensor for name, tensor in initial.items() if name.startswith(prefix)}
        layers: list[nn.Module] = [] if half else [nn.Flatten()]
        for _ in range(depth):
            weight = mine[f"{len(layers)}.weight"]
            layers += [nn.Linear(*reversed(weight.shape), dtype=weight.dtype), nn.ReLU()]
        self.model = nn.Sequential(*(layers[:-1] if half else layers))
        self.model.load_state_dict(mine)
        self.prefix, self.optimizer = prefix, torch.optim.SGD(self.model.parameters(), lr=case["lr"])
        self.graphs: deque[tuple[torch.Tensor, torch.Tensor]] = deque()

    @endpoint
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute a micro-batch, and keep its graph."""
        x = x.clone().requires_grad_()
        y = self.model(x)
        self.graphs.append((x, y))
        return y.detach()

    @endpoint
    def backward(self, gradient: torch.Tensor) -> torch.Tensor:
        """Take the gradient of the oldest micro-batch's output; returns that of its input."""
        x, y = self.graphs.popleft()
        y.backward(gradient)
        return x.grad

    @endpoint
    def finish(self, x: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Do both for the last stage; returns the micro-batch's share of the loss, and its input's gradient."""
        x = x.clone().requires_grad_()
        elements = self.case["batch_size"] * self.case["num_classes"]
        loss = share_of_loss(self.case, self.model(x), labels, 1, elements)
        loss.backward()
        return loss.detach(), x.grad

    @endpoint
    def update(self) -> tuple[Tensors, Tensors]:
        """Make one update; returns its gradients and the new parameters."""
        parameters = {f"{self.prefix}{name}": parameter for name, parameter in self.model.named_parameters()}
        gradients = {name: parameter.grad.clone() for name, parameter in parameters.items()}
        self.optimizer.step()
        self.optimizer.zero_grad()
        return gradients, values(parameters)


def values(parameters: dict[str, nn.Parameter]) -> Tensors:
    return {name: parameter.detach().clone() for name, parameter in parameters.items()}


def share_of_loss(case: Case, scores: torch.Tensor, y: torch.Tensor, offset: int, elements: int) -> torch.Tensor:
    """The loss of these scores, as their share of a batch's loss over so many elements."""
    return (scores * (y + offset)).sum() if case["arithmetic"] == "exact" else ((scores - y) ** 2).sum() / elements


def by_workers(case: Case, given: Tensors, server: Any, workers: list[Any]) -> Tensors:
    """``parameter_server``: workers pull and push in the case's order."""
    pulled: list[list[Tensors]] = [[] for _ in workers]
    pushed = [0] * len(workers)
    found: Tensors = {}
    for kind, worker in given["order/events"].tolist():
        if kind == PULL:
            pulled[worker].append(server.pull.call_one().get())
            continue
        place = f"data/worker{worker + 1}/{pushed[worker]:04d}"
        at = pulled[worker][max(0, len(pulled[worker]) - 1 - case["staleness"])]
        report = workers[worker].compute.call_one(at, given[f"{place}/data"], given[f"{place}/target"])
        loss, gradients = report.get()
        losses = {f"worker{worker + 1}": loss}
        found |= recorded(sum(pushed), losses, *server.push.call_one([gradients]).get())
        pushed[worker] += 1
    return found


def by_rounds(case: Case, given: Tensors, server: Any, workers: list[Any]) -> Tensors:
    """``batch_parameter_server``: one update per round, of all trainers' gradients."""
    found: Tensors = {}
    for step in range(case["steps"]):
        at = server.pull.call_one().get()
        places = [f"data/trainer{number}/{step:04d}" for number in range(1, len(workers) + 1)]
        futures = [
            worker.compute.call_one(at, given[f"{place}/inputs"], given[f"{place}/labels"])
            for worker, place in zip(workers, places, strict=True)
        ]
        losses, reports = zip(*(future.get() for future in futures), strict=True)
        named = {f"trainer{number}": loss for number, loss in enumerate(losses, start=1)}
        found |= recorded(step, named, *server.push.call_one(list(reports)).get())
    return found


def by_stages(case: Case, given: Tensors, first: Any, last: Any) -> Tensors:
    """``pipeline``: all micro-batches are sent to the first stage at once; each goes on as soon as it is there."""
    found: Tensors = {}
    for step in range(case["steps"]):
        inputs, labels = (given[f"data/master/{step:04d}/{name}"] for name in ("inputs", "labels"))
        forwards = [first.forward.call_one(each) for each in inputs.tensor_split(case["num_split"])]
        ends = [
            last.finish.call_one(forward.get(), each)
            for forward, each in zip(forwards, labels.tensor_split(case["num_split"]), strict=True)
        ]
        losses, backwards = [], []
        for end in ends:
            loss, gradient = end.get()
            losses.append(loss)
            backwards.append(first.backward.call_one(gradient))
        for backward in backwards:
            backward.get()
        updates = [stage.update.call_one() for stage in (first, last)]
        (gradients, parameters), (more_gradients, more_parameters) = (update.get() for update in updates)
        loss = {"master": torch.stack(losses).sum()}
        found |= recorded(step, loss, gradients | more_gradients, parameters | more_parameters)
    return found


def recorded(step: int, losses: Tensors, gradients: Tensors, parameters: Tensors) -> Tensors:
    kinds = {"loss": losses, "gradient": gradients, "parameter": parameters}
    return {f"{step:04d}/{kind}/{name}": tensor for kind, named in kinds.items() for name, tensor in named.items()}


def play(tutorial: str, case: Case, given: Tensors) -> Tensors:
    """Start one process per actor, train, and end them."""
    initial = {name.removeprefix("initial/"): tensor for name, tensor in given.items() if name.startswith("initial/")}
    count = {"parameter_server": "workers", "batch_parameter_server": "trainers"}.get(tutorial)
    processes = this_host().spawn_procs({"actors": 1 + case[count] if count else 2})
    first, *others = [processes.slice(actors=place) for place in range(processes.size())]
    try:
        if tutorial == "pipeline":
            stages = [here.spawn("stage", Stage, case, initial, half) for half, here in enumerate((first, *others))]
            return by_stages(case, given, *stages)
        server = first.spawn("server", ParameterServer, initial, case["lr"], case.get("momentum", 0.0))
        linear = tutorial == "parameter_server"
        workers = [here.spawn("worker", Worker, case, linear) for here in others]
        return (by_workers if linear else by_rounds)(case, given, server, workers)
    finally:
        processes.stop().get()


def main() -> None:
    given, answers = map(Path, sys.argv[1:])
    described = json.loads((given / "case.json").read_text())
    tutorial, case = described["tutorial"], described["case"]
    if tutorial not in ("parameter_server", "batch_parameter_server", "pipeline"):
        skip(f"not {tutorial}")
    if (model := case.get("model", "mlp")) != "mlp":
        skip(f"no {model}")
    found = play(tutorial, case, load_file(given / "input.safetensors"))
    save_file({name: tensor.contiguous() for name, tensor in found.items()}, answers / "trace.safetensors")


if __name__ == "__main__":
    main()
