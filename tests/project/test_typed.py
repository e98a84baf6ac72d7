"""A user's own file is checked with this package's types (``py.typed``), and a mistake in it is found."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest

USERS = """
from faults.plan import Fault, Plan
from reference import parameter_server
from reference.outcome import Outcome
from reference.trace import Trace
from reference.world import launch


def outcomes(steps: int) -> dict[str, Outcome]:
    case = parameter_server.Case(steps=steps)
    with launch(parameter_server.roles(case), deadline=60) as world:
        return world.wait()


def losses(trace: Trace) -> list[float]:
    return trace.losses()


PLAN = Plan((Fault(kind="Drop", site="shop:pay", side="reply"),))
"""
MISTAKES = """
parameter_server.Case(steps="three")
launch(parameter_server.roles(parameter_server.Case()), deadline="60 s")
Plan(3)
"""


@pytest.mark.long
def test_a_users_file_is_checked(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    found = [each.read_text("direct_url.json") or "" for each in distributions(name="torch-rpc-reference")]
    if any('"editable": true' in each for each in found):
        pytest.skip("mypy does not follow an editable installation: tox installs a wheel")
    (tmp_path / "right.py").write_text(USERS)
    (tmp_path / "wrong.py").write_text(USERS + MISTAKES)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "right.py", "wrong.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=170)
    first = len(USERS.splitlines()) + 2
    assert [line.partition(" error: ")[0] for line in done.stdout.splitlines() if " error: " in line] == [
        f"wrong.py:{line}:" for line in range(first, first + 3)
    ], done.stdout
