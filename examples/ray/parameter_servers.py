"""``parameter_server`` and ``batch_parameter_server`` with Ray's actors.

    pip install ray
    python -m reference conform run suite --out results -- python examples/ray/parameter_servers.py

It imports nothing of this package. Without Ray it skips every case.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import nn

Tensors = dict[str, torch.Tensor]
PULL, HIDDEN = 0, 8


class ParameterServer:
    """An actor: holds the parameters and makes all updates."""

    def __init__(self, initial: Tensors, lr: float, momentum: float) -> None:
        self.parameters = {name: nn.Parameter(tensor.clone()) for name, tensor in initial.items()}
        self.optimizer = torch.optim.SGD(self.parameters.values(), lr=lr, momentum=momentum)

    def pull(self) -> Tensors:
        return {name: parameter.detach().clone() for name, parameter in self.parameters.items()}

    def push(self, reports: list[Tensors]) -> tuple[Tensors, Tensors]:
        """Make one update of the mean of all reports; returns the gradients and the new parameters."""
        mean = {name: sum(report[name] for report in reports) / len(reports) for name in self.parameters}
        for name, parameter in self.parameters.items():
            parameter.grad = mean[name]
        self.optimizer.step()
        return mean, self.pull()


class Worker:
    """An actor: computes loss and gradients of a batch."""

    def __init__(self, case: dict[str, Any], tutorial: str) -> None:
        torch.set_num_threads(1)
        self.case, self.linear = case, tutorial == "parameter_server"

    def compute(self, parameters: Tensors, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, Tensors]:
        leaves = {name: tensor.clone().requires_grad_() for name, tensor in parameters.items()}
        exact = self.case["arithmetic"] == "exact"
        if self.linear:
            scores, weights = nn.functional.linear(x, leaves["weight"], leaves["bias"]), y
        else:
            hidden = nn.functional.linear(x.flatten(1), leaves["1.weight"], leaves["1.bias"]).relu()
            scores, weights = nn.functional.linear(hidden, leaves["3.weight"], leaves["3.bias"]), y + 1
        loss = (scores * weights).sum() if exact else nn.functional.mse_loss(scores, y)
        loss.backward()
        return loss.detach(), {name: leaf.grad for name, leaf in leaves.items() if leaf.grad is not None}


def by_workers(ray: Any, case: dict[str, Any], given: Tensors, server: Any, workers: list[Any]) -> Tensors:
    """``parameter_server``: workers pull and push in the case's order."""
    pulled: list[list[Any]] = [[] for _ in workers]
    pushed = [0] * len(workers)
    found: Tensors = {}
    update = 0
    for kind, worker in given["order/events"].tolist():
        if kind == PULL:
            pulled[worker].append(ray.get(server.pull.remote()))
            continue
        place = f"data/worker{worker + 1}/{pushed[worker]:04d}"
        pushed[worker] += 1
        at = pulled[worker][max(0, len(pulled[worker]) - 1 - case["staleness"])]
        report = workers[worker].compute.remote(at, given[f"{place}/data"], given[f"{place}/target"])
        loss, gradients = ray.get(report)
        found |= recorded(update, {f"worker{worker + 1}": loss}, *ray.get(server.push.remote([gradients])))
        update += 1
    return found


def by_rounds(ray: Any, case: dict[str, Any], given: Tensors, server: Any, workers: list[Any]) -> Tensors:
    """``batch_parameter_server``: one update per round, of all trainers' gradients."""
    found: Tensors = {}
    for step in range(case["steps"]):
        at = server.pull.remote()
        places = [f"data/trainer{number}/{step:04d}" for number in range(1, len(workers) + 1)]
        futures = [
            worker.compute.remote(at, given[f"{place}/inputs"], given[f"{place}/labels"])
            for worker, place in zip(workers, places, strict=True)
        ]
        losses, reports = zip(*ray.get(futures), strict=True)
        named = {f"trainer{number}": loss for number, loss in enumerate(losses, start=1)}
        found |= recorded(step, named, *ray.get(server.push.remote(list(reports))))
    return found


def recorded(step: int, losses: Tensors, gradients: Tensors, parameters: Tensors) -> Tensors:
    kinds = {"loss": losses, "gradient": gradients, "parameter": parameters}
    return {f"{step:04d}/{kind}/{name}": tensor for kind, named in kinds.items() for name, tensor in named.items()}


def refusal(described: dict[str, Any]) -> str:
    """Why a case is not offered; empty if it is."""
    if described["tutorial"] not in ("parameter_server", "batch_parameter_server"):
        return f"not {described['tutorial']}"
    if described["case"].get("model", "mlp") != "mlp":
        return f"no {described['case']['model']}"
    try:
        import ray  # noqa: F401
    except ImportError as error:
        return f"Ray is not installed ({error})"
    return ""


def main() -> None:
    given, answers = map(Path, sys.argv[1:])
    described = json.loads((given / "case.json").read_text())
    if reason := refusal(described):
        (answers / "result.json").write_text(json.dumps({"status": "skipped", "reason": reason}))
        return
    import ray

    case, inputs = described["case"], load_file(given / "input.safetensors")
    initial = {name.removeprefix("initial/"): tensor for name, tensor in inputs.items() if name.startswith("initial/")}
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    try:
        server = ray.remote(ParameterServer).options(num_cpus=0).remote(initial, case["lr"], case.get("momentum", 0.0))
        count, play = (case["workers"], by_workers) if "workers" in case else (case["trainers"], by_rounds)
        kind = ray.remote(Worker).options(num_cpus=0)
        workers = [kind.remote(case, described["tutorial"]) for _ in range(count)]
        found = play(ray, case, inputs, server, workers)
        save_file({name: tensor.contiguous() for name, tensor in found.items()}, answers / "trace.safetensors")
    finally:
        ray.shutdown()


if __name__ == "__main__":
    main()
