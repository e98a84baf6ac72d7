"""The measurement of which tests reach which line, over a small program whose lines run in every kind of process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.coverage.record import Record

pytestmark = pytest.mark.long  # starts many processes that import torch

ROOT = Path(__file__).parents[2]
PROGRAM = """
import os
import signal
import sys

import torch.distributed.rpc as rpc


def called():
    return 1  # called over RPC


def role():
    return rpc.rpc_sync(rpc.get_worker_info(), called)  # role


def killed():
    os.kill(os.getpid(), signal.SIGKILL)  # killed


def child(status):
    if os.fork() == 0:
        os._exit(status)  # forked
    return os.wait()[1]


def unreached(yes):
    if yes:  # a branch
        return 1
    return 2  # no test


if __name__ == "__main__":
    print(called() + child(0))  # script
"""
TESTS = """
import subprocess
import sys

import shop
from reference.outcome import Killed
from reference.world import launch


def test_role():
    with launch({"one": shop.role}, deadline=100) as world:
        assert world.wait()["one"].value == 1


def test_killed_in_the_same_forkserver():
    with launch({"one": shop.killed}, deadline=100) as world:
        assert isinstance(world.wait()["one"], Killed)


def test_forked():
    assert shop.child(3) >> 8 == 3


def test_script():
    subprocess.run([sys.executable, shop.__file__], check=True)


def test_branch():
    assert shop.unreached(True) == 1
"""


@pytest.fixture(scope="session")  # a part of the file would make it again
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the program, its tests and the record of one run."""
    folder = tmp_path_factory.mktemp("measured")
    (folder / "shop.py").write_text(PROGRAM)
    (folder / "test_shop.py").write_text(TESTS)
    (folder / "pytest.ini").write_text("[pytest]\n")
    # As pytest does it by itself with all that is installed together with a plugin.
    (folder / "conftest.py").write_text("import pytest\n\npytest.register_assert_rewrite('shop')\n")
    said = asked(folder, "run", "-q", "-n", "2", "-p", "no:cacheprovider", "test_shop.py")
    assert "5 passed" in said, said
    assert list(folder.glob("__pycache__/shop.*")) == [], "compiled code with probes is left"
    return folder


def asked(folder: Path, *words: str) -> str:
    """Return what one command says of the program in a folder."""
    command = [sys.executable, "-m", "tests.coverage", "--record", "record.npz", "--root", ".", "--measured", "shop.py"]
    path = {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    done = subprocess.run([*command, *words], cwd=folder, env=os.environ | path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def line_of(text: str) -> int:
    """Return the number of the program's line that has a text."""
    (line,) = (number for number, each in enumerate(PROGRAM.splitlines(), 1) if text in each)
    return line


REACHED_BY = {
    "# called over RPC": ["test_role", "test_script"],
    "# role": ["test_role"],
    "# killed": ["test_killed_in_the_same_forkserver"],
    "# forked": ["test_forked", "test_script"],
    "# script": ["test_script"],
    "# no test": [],
}


def test_tests_that_reach_a_line(measured: Path) -> None:
    record = Record.load(measured / "record.npz")
    found = {line: sorted(record.covering("shop.py", line_of(line))[1]) for line in REACHED_BY}
    assert found == {line: [f"test_shop.py::{each}" for each in tests] for line, tests in REACHED_BY.items()}


def test_what_no_test_reaches(measured: Path) -> None:
    branch, last = line_of("# a branch"), line_of("# no test")
    assert asked(measured, "missing").splitlines() == [
        f"shop.py:{branch}: if yes:  # a branch   # no way past it",
        f"shop.py:{last}: return 2  # no test",
    ]
    assert asked(measured, "rooms").splitlines()[-1].split() == ["all", "20", "3", "91.3", "%"]


def test_a_later_run_adds_to_the_record(measured: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(measured, tmp_path / "later")
    (folder / "test_later.py").write_text("import shop\n\n\ndef test_later():\n    assert shop.unreached(False) == 2\n")
    asked(folder, "run", "-q", "-p", "no:cacheprovider", "test_later.py")
    assert "test_later.py::test_later" in asked(folder, "contexts", f"shop.py:{line_of('# no test')}")
    assert "test_shop.py::test_role" in asked(folder, "contexts", f"shop.py:{line_of('# role')}")
