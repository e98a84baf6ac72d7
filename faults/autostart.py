"""Installs the plan of the folder that FAULTS_RUN names, in a process whose program knows nothing of faults.

Imported at the start of Python: by ``faults.pth``, which is installed with this package, or by ``startup``. Where
FAULTS_RUN is not set that is all: nothing is imported, nothing is replaced. Else `asking` writes down from now on whom
the process ends, `leaving` stands in its ways out, and the plan is installed as soon as the program imports
`torch.distributed.rpc`.
"""

from __future__ import annotations

import importlib.abc
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

VARIABLE = "FAULTS_RUN"
_RPC = "torch.distributed.rpc"


class _Loader(importlib.abc.Loader):
    """Loads the module as ever, and then installs the plan."""

    def __init__(self, loader: importlib.abc.Loader, folder: str) -> None:
        self.loader, self.folder = loader, folder

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        from faults import hook, uncaught

        hook.install(self.folder, record=True)
        uncaught.watch(Path(self.folder))


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, folder: str) -> None:
        self.folder = folder

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != _RPC:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self.folder)
        return spec


def start() -> None:
    """Does nothing a second time, nor where FAULTS_RUN is not set."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        return
    # For processes that it starts elsewhere, too; and without importing more than is needed.
    os.environ[VARIABLE] = folder = os.path.abspath(folder)  # noqa: PTH100
    from faults import asking, leaving

    asking.watch(Path(folder))
    leaving.watch()
    if _RPC not in sys.modules and not any(isinstance(each, _Finder) for each in sys.meta_path):
        sys.meta_path.insert(0, _Finder(folder))


start()
