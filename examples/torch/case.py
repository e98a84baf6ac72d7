"""Read a conformance case and write its answer, with torch and safetensors."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import nn

Tensors = dict[str, torch.Tensor]


def asked() -> tuple[dict[str, Any], Path, Path]:
    """The content of ``case.json``, and the folders of the case and of the answer: the last two arguments."""
    given, answers = map(Path, sys.argv[-2:])
    described: dict[str, Any] = json.loads((given / "case.json").read_text())
    return described, given, answers


def inputs_of(given: Path) -> Tensors:
    found: Tensors = load_file(given / "input.safetensors")
    return found


def answer(answers: Path, tensors: Tensors) -> None:
    save_file(
        {name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}, answers / "trace.safetensors"
    )


def skip(answers: Path, reason: str) -> None:
    (answers / "result.json").write_text(json.dumps({"status": "skipped", "reason": reason}))


def linear_layers(initial: Tensors, layers: list[nn.Module]) -> nn.Sequential:
    """A Sequential of these layers with the initial parameters, which have its names."""
    model = nn.Sequential(*layers).to(next(iter(initial.values())).dtype)
    model.load_state_dict(initial)
    return model
