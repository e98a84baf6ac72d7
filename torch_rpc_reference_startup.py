"""Starts `faults.script.autostart` with Python, under a name that no other project has.

The packages here are called `faults` and `reference`. Another project may have modules of the same names, and Python
imports those that come first on its path: `hiding` finds them.

``faults.pth`` and ``faults/startup`` import this module where FAULTS_RUN is set. They run in programs that know nothing
of this project, so nothing here may break one: an error is one line on standard error.

PYTEST_DONT_REWRITE: pytest would warn that this is imported before it can look for assertions in it.
"""

from __future__ import annotations

import importlib.abc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

PACKAGES = ("faults", "reference")

# The longest line that is printed (characters). `reference.system.printable` does better, but is not imported here.
_LONGEST = 3900

_said: list[str] = []


def hiding(*first: str) -> str:
    """Which module of another project hides one of these packages, and where; empty if none does.

    ``first``: folders that will come before all others on Python's path.
    """
    for name in PACKAGES:
        spec = PathFinder.find_spec(name, [*first, *sys.path])
        if spec is not None and not _is_of_this_project(name, spec):
            place = spec.origin or ", ".join(spec.submodule_search_locations or ())
            return f"{place} hides the package `{name}` of torch-rpc-reference"
    return ""


def _is_of_this_project(name: str, spec: ModuleSpec) -> bool:
    """A checkout's package and the installed one are both: this file lies beside them."""
    folder, file = os.path.split(spec.origin or "")
    beside = os.path.join(os.path.dirname(folder), os.path.basename(__file__))  # noqa: PTH118, PTH119, PTH120
    return os.path.basename(folder) == name and file == "__init__.py" and os.path.exists(beside)  # noqa: PTH110, PTH119


def say(text: str) -> None:
    """Write one line to standard error, once a process; printable and bounded, which a file's name need not be."""
    line = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
    if line in _said:
        return
    _said.append(line)
    with suppress(OSError):  # it is closed
        shown = line if len(line) <= _LONGEST else f"{line[: _LONGEST // 2]} ... {line[-_LONGEST // 4 :]}"
        os.write(2, f"torch-rpc-reference: {shown}\n".encode(errors="backslashreplace"))


class _Keeper(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Takes this project's modules out of `sys.modules` until somebody imports `faults`.

    They are loaded before Python knows the program's own folder. If the program has a `faults` of its own there, it
    has to find that one.
    """

    def __init__(self) -> None:
        names = [name for name in sys.modules if name.partition(".")[0] in PACKAGES]
        self.kept = {name: sys.modules.pop(name) for name in names}

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "faults":
            return None
        if hidden := hiding():
            sys.meta_path.remove(self)
            say(f"FAULTS_RUN does nothing here: {hidden}")
            return None
        return ModuleSpec(name, self, origin=self.kept[name].__file__, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        if self in sys.meta_path:  # not sooner: `python -m` only looks, and then imports
            sys.meta_path.remove(self)
        sys.modules.update(self.kept)
        return self.kept[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        """It has run already."""


def give_back() -> None:
    """Put this project's modules back, for an importer that would not ask for them, but load them a second time. Nor
    would it ask `autostart`, which installs the plan before others of them are imported: so that is done now."""
    for each in [each for each in sys.meta_path if isinstance(each, _Keeper)]:
        sys.meta_path.remove(each)
        sys.modules.update(each.kept)
        from faults.script import autostart

        autostart.import_rpc()


def start() -> None:
    """Put the plan of FAULTS_RUN to work as soon as the program starts RPC, if it is set. A second time, as where a
    folder with a ``.pth`` file is twice on Python's path, it does nothing."""
    if any(isinstance(each, _Keeper) for each in sys.meta_path):
        return
    try:
        if hidden := hiding():
            say(f"FAULTS_RUN does nothing here: {hidden}")
            return
        from faults.script import autostart

        autostart.start()
        sys.meta_path.insert(0, _Keeper())
    except Exception as error:
        say(f"FAULTS_RUN does nothing here: {type(error).__name__}: {' '.join(str(error).split())}")
