"""torchvision's models when its operators load, when they do not, and when something else is wrong.

Each case has an interpreter of its own: operators can be registered once a process. Its torchvision is a fake one, so
that this holds on every machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import reference

ROOT = Path(reference.__file__).parent.parent
# Its import counts the attempts, and goes on as a case says.
INIT = """
import torch, tv
tv.attempts += 1
{}
from . import models
"""
MODELS = """
class resnet:
    Bottleneck = "a block"
def resnet50(**options):
    return options
"""
# Tries the import with each of these errors: what becomes of it, after how many attempts, with which schemas defined.
SCRIPT = """
import json, sys, torch, tv
found = []
for error in sys.argv[1:]:
    tv.attempts, tv.error = 0, eval(error)
    try:
        from reference.training import vision
        became = vision.resnet50(num_classes=3)
    except Exception as caught:
        became = [caught is tv.error, repr(caught)]
    schemas = [str(each) for each in torch._C._jit_get_all_schemas() if each.name.startswith("torchvision::")]
    found.append([became, tv.attempts, sorted(schemas)])
print(json.dumps(found))
"""
WORKS = {"num_classes": 3}
# As torchvision itself does: it fails where the operators do not exist.
REGISTERS = """
for name in ("nms", "qnms"):
    torch.library.register_fake(f"torchvision::{name}")(lambda *arguments: None)
"""
ARGUMENTS = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
OPERATORS = [f"torchvision::nms{ARGUMENTS}", f"torchvision::qnms{ARGUMENTS}"]
OTHERS = [
    "RuntimeError('something else')",
    "RuntimeError('operator torchvision::nms is broken')",
    "RuntimeError('operator aten::nms does not exist')",
    "ImportError('operator torchvision::nms does not exist')",
]


@pytest.mark.long
@pytest.mark.parametrize(
    ("does", "errors", "wanted"),
    [
        ("", ["None"], [[WORKS, 1, []]]),
        (REGISTERS, ["None"], [[WORKS, 2, OPERATORS]]),
        ("raise tv.error", OTHERS, [[[True, error], 1, []] for error in OTHERS]),
    ],
    ids=["operators load", "operators do not exist", "other errors"],
)
def test_schemas_are_defined_only_where_operators_do_not_exist_and_other_errors_pass_unchanged(
    does: str, errors: list[str], wanted: list[object], tmp_path: Path
) -> None:
    """Only then is the import tried again. Another error is the very exception that torchvision has raised."""
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text(INIT.format(does))
    (tmp_path / "torchvision" / "models.py").write_text(MODELS)
    (tmp_path / "tv.py").touch()
    command = [sys.executable, "-c", SCRIPT, *errors]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == wanted
