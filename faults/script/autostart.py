"""Install the plan of the folder that FAULTS_RUN names, in a process whose program knows nothing of faults.

`torch_rpc_reference_startup` calls `start` at the start of Python where FAULTS_RUN is set. From then on `own_signals`
writes down which processes this one ends, `exit_hooks` acts before every way out of it, and the plan is installed as
soon as the program imports `torch.distributed.rpc`.
"""

from __future__ import annotations

import importlib
import importlib.abc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

from torch_rpc_reference_startup import hiding, say

VARIABLE = "FAULTS_RUN"

# Set where this has been said, and for everything that is started from there; it has FAULTS_RUN's value.
SAID = "FAULTS_RUN_SAID"

_RPC = "torch.distributed.rpc"


class _Loader(importlib.abc.Loader):
    """Loads the module as ever, and then installs the plan."""

    def __init__(self, loader: importlib.abc.Loader, folder: str) -> None:
        self.loader, self.folder = loader, folder

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        if hidden := hiding():
            say(f"FAULTS_RUN does nothing here: {hidden}")
            return
        _tell(self.folder)
        from faults import hook
        from faults.script import uncaught

        hook.install(self.folder, record=True)
        uncaught.watch(Path(self.folder))


class _Found(importlib.abc.Loader):
    """A module that was imported while somebody looked for it."""

    def __init__(self, module: ModuleType) -> None:
        self.module, self.spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        """It has run already."""
        module.__spec__ = self.spec


def import_rpc() -> None:
    """Import RPC, and so install the plan, where that has not happened."""
    if any(isinstance(each, _Finder) for each in sys.meta_path):
        with suppress(ImportError):  # there is no torch, and nothing to hurt
            importlib.import_module(_RPC)


def tell_now() -> None:
    """Say what `_Loader` would say when the program imports RPC, because nobody would see it then."""
    for each in sys.meta_path:
        if isinstance(each, _Finder):
            _tell(each.folder)


def _tell(folder: str) -> None:
    """Say once that a plan is at work: whoever has exported FAULTS_RUN may have forgotten it."""
    if os.environ.get(SAID) != folder:
        os.environ[SAID] = folder
        say(f"FAULTS_RUN is set: the plan of {folder} is at work in this program, and in what it starts")


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, folder: str) -> None:
        self.folder = folder

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.startswith("faults.") and name != "faults.__main__":
            return self._after_rpc(name)
        if name != _RPC:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self.folder)
        return spec

    def _after_rpc(self, name: str) -> ModuleSpec | None:
        """RPC comes before a module of this project that the plan may need: who imports that one first would have half
        of it there when the plan is installed."""
        import_rpc()
        return ModuleSpec(name, _Found(sys.modules[name])) if name in sys.modules else None


def start() -> None:
    """Does nothing a second time, nor where FAULTS_RUN is not set."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        return
    # For processes that it starts elsewhere, too; and without importing more than is needed.
    os.environ[VARIABLE] = folder = os.path.abspath(folder)  # noqa: PTH100
    from faults.script import exit_hooks, own_signals

    own_signals.watch(Path(folder))
    exit_hooks.watch()
    if _RPC not in sys.modules and not any(isinstance(each, _Finder) for each in sys.meta_path):
        sys.meta_path.insert(0, _Finder(folder))


def leave_alone() -> None:
    """Undo `start`, and forget FAULTS_RUN: the commands of `faults` are not what a plan is to hurt, nor is what they
    start, which gets a plan of its own."""
    for variable in (VARIABLE, SAID):
        os.environ.pop(variable, None)
    for each in [each for each in sys.meta_path if isinstance(each, _Finder)]:
        sys.meta_path.remove(each)
    from faults.script import own_signals

    own_signals.leave_alone()
