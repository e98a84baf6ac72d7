"""Processes of tests leave no temporary files, although torchrun keeps logs, and `mp.spawn` a file per failure."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FAILS = """
import torch.multiprocessing as mp
def play(rank): raise ValueError(rank)
if __name__ == "__main__": mp.spawn(play, nprocs=1)
"""
RUNS = "import os; print(os.environ['RANK'])"


def test_what_tests_start_has_a_folder_of_its_own() -> None:
    folder = Path(os.environ["TMPDIR"])
    assert folder.name.startswith("tests-")
    asked = [sys.executable, "-c", "import tempfile; print(tempfile.gettempdir())"]
    assert subprocess.check_output(asked, text=True) == f"{folder}\n"


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "how", "status", "left"),
    [(FAILS, [], 1, "pytorch-errorfile"), (RUNS, ["-m", "torch.distributed.run"], 0, "torchelastic")],
    ids=["spawn", "torchrun"],
)
def test_torch_leaves_its_files_there(text: str, how: list[str], status: int, left: str, tmp_path: Path) -> None:
    """If torch no longer does this, the tests' own folder is not needed."""
    folder = Path(os.environ["TMPDIR"])
    before = set(folder.iterdir())
    (tmp_path / "program.py").write_text(text)
    done = subprocess.run([sys.executable, *how, str(tmp_path / "program.py")], capture_output=True, timeout=100)
    assert done.returncode == status, done.stderr
    new = {each.name for each in set(folder.iterdir()) - before}
    assert any(name.startswith(left) for name in new), new
