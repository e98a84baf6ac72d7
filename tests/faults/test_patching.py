"""torch's functions are replaced wherever they are: under other names, in later modules, and in unfinished ones."""

from __future__ import annotations

import importlib
import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch.distributed.rpc as rpc

from faults.inject import patching
from faults.inject.patching import patch_all_references


class Held:
    """Functions that are in no module by their own name, where they would be replaced as well."""

    torchs = staticmethod(rpc.init_rpc)

    @staticmethod
    def new(*_: object) -> None:
        """Replaces `init_rpc`."""

    @staticmethod
    def others(*_: object) -> None:
        """Another replacement that was there before."""


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    yield
    assert rpc.init_rpc is Held.torchs


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module that is imported after this one."""
    module = ModuleType("program")
    monkeypatch.setitem(sys.modules, "program", module)
    return module


def test_a_reference_under_another_name_in_a_later_module_is_replaced(program: Any) -> None:
    program.begin = rpc.init_rpc
    put_back = patch_all_references("init_rpc", Held.torchs, Held.new)
    assert program.begin is Held.new
    put_back()
    assert program.begin is Held.torchs


UNFINISHED = """
import everywhere_again
from torch.distributed import rpc
from torch.distributed.rpc import init_rpc as begin
new = [lambda: None]
put_back = everywhere_again.patch_all_references("init_rpc", rpc.init_rpc, new[0])
"""


def test_a_reference_in_a_module_that_is_still_being_imported_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a program imports this module first, then takes the function by name, and then starts."""
    (tmp_path / "everywhere_again.py").write_text(Path(patching.__file__).read_text())
    (tmp_path / "unfinished.py").write_text(UNFINISHED)
    monkeypatch.syspath_prepend(tmp_path)
    try:
        program = importlib.import_module("unfinished")
        assert program.begin is program.new[0]
        program.put_back()
        assert program.begin is Held.torchs
        del sys.modules["unfinished"]  # as after an import that has failed
        program.put_back()
    finally:
        for name in ("unfinished", "everywhere_again"):
            sys.modules.pop(name, None)


STARTED = """
from faults.inject import patching
from torch.distributed import rpc
from torch.distributed.rpc import init_rpc as begin
new = [lambda: None]
patching.patch_all_references("init_rpc", rpc.init_rpc, new[0])
assert begin is new[0]
"""


def test_a_reference_in_a_program_that_is_started_as_a_module_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "started.py").write_text(STARTED)
    variables = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run([sys.executable, "-m", "started"], cwd=tmp_path, env=variables, check=True, timeout=100)


def test_another_replacement_is_put_back_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as others:
        others.setattr(rpc, "init_rpc", Held.others)
        put_back = patch_all_references("init_rpc", Held.others, Held.new)
        assert rpc.init_rpc is Held.new
        put_back()
        assert rpc.init_rpc is Held.others


def test_another_thread_may_import_modules_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may between any two lines; here a trace does so at every tenth."""
    numbers = itertools.count()

    def another(*_: object) -> Any:
        if (number := next(numbers)) % 10 == 0:
            monkeypatch.setitem(sys.modules, f"another_{number}", ModuleType("another"))
        return another

    for _ in range(1000):
        another()
    before = sys.gettrace()
    sys.settrace(lambda frame, *_: another if frame.f_code.co_filename == patching.__file__ else None)
    try:
        patch_all_references("init_rpc", Held.torchs, Held.new)()
    finally:
        sys.settrace(before)
