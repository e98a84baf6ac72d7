"""torchvision's models when its operators load, when they do not, and when something else is wrong.

Each test has an interpreter of its own: operators can be registered once a process. Except for the first test the
torchvision is a fake one, so that these hold on every machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import reference

ROOT = Path(reference.__file__).parent.parent


def interpreted(script: str, *paths: Path) -> Any:
    """Return what ``script`` prints as JSON, in a fresh interpreter that looks for modules in ``paths`` first."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [*paths, ROOT]))}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def fake(tmp_path: Path) -> Path:
    """A folder with a torchvision that counts how often its import was tried, and runs ``tv.py`` first."""
    package = tmp_path / "torchvision"
    package.mkdir()
    (package / "__init__.py").write_text("import tv\ntv.attempt()\nfrom . import models\n")
    (package / "models.py").write_text(
        "class resnet:\n    Bottleneck = 'a block'\n\ndef resnet50(**options):\n    return options\n"
    )
    (tmp_path / "tv.py").write_text("attempts = []\ndef attempt():\n    attempts.append(1)\n")
    return tmp_path


@pytest.mark.long
def test_no_schema_is_defined_where_torchvision_imports(fake: Path) -> None:
    script = """
    import json, torch, tv
    from reference.training import vision
    schemas = [s.name for s in torch._C._jit_get_all_schemas() if s.name.startswith("torchvision::")]
    print(json.dumps([vision._schemas is None, schemas, len(tv.attempts), vision.resnet50(num_classes=3)]))
    """
    assert interpreted(script, fake) == [True, [], 1, {"num_classes": 3}]


@pytest.mark.long
def test_schemas_are_defined_where_operators_do_not_exist(fake: Path) -> None:
    """The import is tried again only then. torchvision itself fails like this."""
    (fake / "tv.py").write_text(
        textwrap.dedent("""
        import torch
        attempts = []
        def attempt():
            attempts.append(1)
            for name in ("nms", "qnms"):
                torch.library.register_fake(f"torchvision::{name}")(lambda *arguments: None)
        """)
    )
    script = """
    import json, torch, tv
    from reference.training import vision
    operators = [str(torch.ops.torchvision.nms.default._schema), str(torch.ops.torchvision.qnms.default._schema)]
    print(json.dumps([vision._schemas is not None, operators, len(tv.attempts), vision.resnet50(num_classes=3)]))
    """
    arguments = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
    operators = [f"torchvision::nms{arguments}", f"torchvision::qnms{arguments}"]
    assert interpreted(script, fake) == [True, operators, 2, {"num_classes": 3}]


@pytest.mark.long
def test_other_errors_pass_unchanged(fake: Path) -> None:
    """The very exception that torchvision raised, after one attempt, and no schema on the way."""
    (fake / "tv.py").write_text("attempts, error = [], None\ndef attempt():\n    attempts.append(1)\n    raise error\n")
    script = """
    import json, sys, torch, tv
    seen = []
    for error in (
        RuntimeError("something else"),
        RuntimeError("operator torchvision::nms is broken"),
        RuntimeError("operator aten::nms does not exist"),
        ImportError("operator torchvision::nms does not exist"),
    ):
        tv.error, tv.attempts[:] = error, []
        try:
            import reference.training.vision
        except Exception as caught:
            schemas = [s.name for s in torch._C._jit_get_all_schemas() if s.name.startswith("torchvision::")]
            imported = "reference.training.vision" in sys.modules
            seen.append([caught is error, str(caught), len(tv.attempts), schemas, imported])
    print(json.dumps(seen))
    """
    assert interpreted(script, fake) == [
        [True, "something else", 1, [], False],
        [True, "operator torchvision::nms is broken", 1, [], False],
        [True, "operator aten::nms does not exist", 1, [], False],
        [True, "operator torchvision::nms does not exist", 1, [], False],
    ]
