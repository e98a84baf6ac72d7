"""Install the plan of the folder that FAULTS_RUN names, in a process whose program knows nothing of faults.

`torch_rpc_reference_startup` calls `start` at the start of Python if FAULTS_RUN is set. The plan is installed, and
`process_end` begins to record, when the program imports `torch.distributed.rpc`.
"""

from __future__ import annotations

import gc
import importlib
import importlib.abc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder
from itertools import filterfalse
from pathlib import Path
from types import ModuleType

from torch_rpc_reference_startup import hiding, say, withdraw

VARIABLE = "FAULTS_RUN"

# Set to FAULTS_RUN's value once the notice was printed, so that child processes do not print it again.
SAID = "FAULTS_RUN_SAID"

# Set where the processes of a script print into one file.
WHOLE_LINES = "FAULTS_WHOLE_LINES"

_RPC = "torch.distributed.rpc"


class _Loader(importlib.abc.Loader):
    """Load the module as usual, and then install the plan."""

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
        from faults.script import process_end

        hook.install(self.folder, record=True)
        process_end.watch(Path(self.folder))


class _WithoutCollections(_Loader):
    """Load torch without garbage collections, which find nothing in it, and exempt it from later ones.

    Collections take a sixth of its import, and a quarter of the time of a program that only imports it: the end of
    Python looks through all objects again.
    """

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__loader__ = module.__spec__.loader = self.loader  # as in a program without a plan
        collecting = gc.isenabled()
        gc.disable()
        programs = gc.get_objects()
        try:
            self.loader.exec_module(module)
            gc.freeze()
            _collect_again(programs)
        finally:
            if collecting:
                gc.enable()


def _collect_again(frozen: list[object]) -> None:
    """Let garbage collections look at these frozen objects again, for which `gc` has no function.

    They are those that the program has made so far. Otherwise its own destructors would not run at its end.
    """
    import ctypes  # torch has imported it; a process without torch need not

    untrack, track = ctypes.pythonapi.PyObject_GC_UnTrack, ctypes.pythonapi.PyObject_GC_Track
    for function in (untrack, track):
        function.argtypes, function.restype = [ctypes.py_object], None
    # Without a pause in which another thread could fill a dictionary, which would track it: twice ends the process.
    for _ in map(track, filterfalse(untrack, frozen)):
        pass


class _Found(importlib.abc.Loader):
    """Hand out a module that was imported while the import system looked for it."""

    def __init__(self, module: ModuleType) -> None:
        self.module, self.spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        """It has run already."""
        module.__spec__ = self.spec


def import_rpc() -> None:
    """Import RPC, and so install the plan, unless that has happened."""
    if any(isinstance(each, _Finder) for each in sys.meta_path):
        with suppress(ImportError):  # without torch there is no RPC
            importlib.import_module(_RPC)


def _tell(folder: str) -> None:
    """Print once that a plan is at work, because the user may have forgotten that FAULTS_RUN is exported."""
    if os.environ.get(SAID) != folder:
        os.environ[SAID] = folder
        say(f"FAULTS_RUN is set: the plan of {folder} is at work in this program, and in what it starts")


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, folder: str) -> None:
        self.folder = folder

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.startswith("faults.") and name != "faults.__main__":
            return self._after_rpc(name)
        if name not in ("torch", _RPC):
            return None
        spec = PathFinder.find_spec(name, path)
        if name == _RPC:
            withdraw(self)
        if spec is not None and spec.loader is not None:
            spec.loader = (_Loader if name == _RPC else _WithoutCollections)(spec.loader, self.folder)
        return spec

    def _after_rpc(self, name: str) -> ModuleSpec | None:
        """Import RPC before a module of this project. Otherwise the plan would be installed during that module's
        import, when the module is half complete."""
        import_rpc()
        if module := sys.modules.get(name):  # Python goes by the spec of this one, and would execute it a second time
            module.__spec__ = ModuleSpec(name, _Found(module))
            return module.__spec__
        return None


def _print_whole_lines() -> None:
    """Let this process and its forked children write whole lines, as to a terminal, because others write to the same
    file. A Python without buffers (PYTHONUNBUFFERED) writes each line's end separately."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError):  # it is closed
            stream.reconfigure(line_buffering=True, write_through=False)  # type: ignore[union-attr, unused-ignore]


def start() -> None:
    """Let this process tell its stacks, and install the plan when it imports RPC. A second call does nothing, nor does
    any call without FAULTS_RUN."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        return
    # Absolute, for processes that are started in another folder. `os.path`, because importing `pathlib` takes time.
    os.environ[VARIABLE] = folder = os.path.abspath(folder)  # noqa: PTH100
    from faults.script import stacks

    if os.environ.get(WHOLE_LINES):
        _print_whole_lines()
    stacks.watch(Path(folder))
    if _RPC not in sys.modules and not any(isinstance(each, _Finder) for each in sys.meta_path):
        sys.meta_path.insert(0, _Finder(folder))


def leave_alone() -> None:
    """Undo `start`, and forget FAULTS_RUN: no plan applies to the commands of `faults` themselves, and the programs
    that they start get a plan of their own."""
    for variable in (VARIABLE, SAID):
        os.environ.pop(variable, None)
    for each in [each for each in sys.meta_path if isinstance(each, _Finder)]:
        withdraw(each)
    from faults.script import stacks

    stacks.leave_alone()
