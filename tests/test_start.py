"""What the forkserver has loaded before it forks the first role."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROGRAM = """
import sys
from reference.world import launch
import {tutorial}
LOADED = "sorted(__import__('sys').modules.keys() & {names}), __import__('gc').get_freeze_count() > 10**5"
with launch(["a"]) as world:
    print(world.call("a", eval, LOADED))
"""
NAMES = {"reference.rnn", "reference.pipeline", "reference.role", "torch._dynamo", "torchvision", "faults.hook"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("tutorial", "wanted"),
    [
        ("reference.rnn", ["reference.rnn", "reference.role", "torch._dynamo"]),
        ("faults.scope", ["faults.hook", "reference.role"]),
    ],
)
def test_roles_start_with_the_tutorials_of_their_launcher(tutorial: str, wanted: list[str]) -> None:
    """And with nothing else that takes seconds to import."""
    program = PROGRAM.format(tutorial=tutorial, names=NAMES)
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.stdout == f"{(wanted, True)}\n", done.stderr
