"""A backward pass that ends on the caller before the gradients of a role two calls away are there (S4.14).

It needs two gradient messages to one role, the second of which overtakes the first at one place in torch's engine.
This happens by itself once in some hundred passes. Here a library in C holds the first message at that place.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.c_compiler import compiled

pytestmark = pytest.mark.long

SOURCE = Path(__file__).with_name("slow_engine.c")


@pytest.fixture(scope="session")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `roles_late_gradients` prints."""
    library = tmp_path_factory.mktemp("late") / "slow_engine.so"
    compiled(SOURCE, library, "-shared", "-fPIC", "-ldl", packages="gcc libc6-dev")
    command = [sys.executable, "-m", "tests.support.roles_late_gradients"]
    loaded = " ".join(filter(None, (str(library), os.environ.get("LD_PRELOAD"))))
    environment = {**os.environ, "LD_PRELOAD": loaded}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_the_optimizer_skips_a_role_whose_gradients_are_late(found: dict[str, Any]) -> None:
    """Erratum S4.14: of three products each weight has the gradient 3. No error; the first weight is as before. One
    message to each role is waited for: of one product each weight has the gradient 1."""
    assert found["steps"]["3"] == [[0, 1.0], [1, -0.5]]
    assert found["steps"]["1"] == [[1, 0.5], [1, 0.5]]


def test_the_pipeline_waits_for_late_gradients(found: dict[str, Any]) -> None:
    """Without its wait it is not its twin: its passes were held, too."""
    assert found["the tutorial"] is True
    assert found["without its wait"] is False
