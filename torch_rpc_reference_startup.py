"""Starts `faults.script.autostart` with Python, under a name that no other project has.

The packages here are called `faults` and `reference`. Another project may have modules of the same names, and Python
imports those that come first on its path: `hiding` finds them.

``faults.pth`` and ``faults/startup`` import this module if FAULTS_RUN is set. They run in programs that know nothing of
this project, so nothing here may break a program: an error is one line on standard error.

PYTEST_DONT_REWRITE: otherwise pytest would warn that it cannot rewrite the assertions of a module imported already.
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

# The longest line that is printed (characters). `reference.system.text` does better, but is not imported here.
_LONGEST = 3900

_said: list[str] = []


def hiding(*first: str) -> str:
    """Name the module of another project that hides one of these packages, and its place; empty if none does.

    ``first``: folders that will come before all others on Python's path.
    """
    for name in PACKAGES:
        spec = PathFinder.find_spec(name, [*first, *sys.path])
        if spec is not None and not _is_of_this_project(name, spec):
            place = spec.origin or ", ".join(spec.submodule_search_locations or ())
            return f"{place} hides the package `{name}` of torch-rpc-reference"
    return ""


def _is_of_this_project(name: str, spec: ModuleSpec) -> bool:
    """Whether a package is this project's, in a checkout or installed: this file lies beside it."""
    folder, file = os.path.split(spec.origin or "")
    beside = os.path.join(os.path.dirname(folder), os.path.basename(__file__))  # noqa: PTH118, PTH119, PTH120
    return os.path.basename(folder) == name and file == "__init__.py" and os.path.exists(beside)  # noqa: PTH110, PTH119


def say(text: str) -> None:
    """Write one line to standard error, once per process. It is made printable and bounded, because it may contain any
    file name."""
    line = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
    if line in _said:
        return
    _said.append(line)
    with suppress(OSError):  # standard error is closed
        shown = line if len(line) <= _LONGEST else f"{line[: _LONGEST // 2]} ... {line[-_LONGEST // 4 :]}"
        os.write(2, f"torch-rpc-reference: {shown}\n".encode(errors="backslashreplace"))


def withdraw(finder: object) -> None:
    """Let imports ask a finder no more. Those that go on have the old list: taken out of that, it would make them miss
    the next finder."""
    sys.meta_path = [each for each in sys.meta_path if each is not finder]


class _Keeper(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Takes this project's modules out of `sys.modules` until somebody imports `faults`.

    They are loaded before Python knows the program's own folder. If that folder has a module `faults`, the program has
    to find that one.
    """

    def __init__(self) -> None:
        names = [name for name in sys.modules if name.partition(".")[0] in PACKAGES]
        self.kept = {name: sys.modules.pop(name) for name in names}

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "faults":
            return None
        if hidden := hiding():
            withdraw(self)
            say(f"FAULTS_RUN does nothing here: {hidden}")
            return None
        return ModuleSpec(name, self, origin=self.kept[name].__file__, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        withdraw(self)  # not in `find_spec`, because `python -m` calls that twice, and imports then
        sys.modules.update(self.kept)
        return self.kept[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        """It has run already."""


def give_back() -> None:
    """Put this project's modules back, for an importer that does not ask `_Keeper`, but would load them a second time.

    Such an importer does not ask `autostart` either, which has to install the plan before other modules are imported.
    So it is installed now.
    """
    for each in [each for each in sys.meta_path if isinstance(each, _Keeper)]:
        withdraw(each)
        sys.modules.update(each.kept)
        from faults.script import autostart

        autostart.import_rpc()


def start() -> None:
    """If FAULTS_RUN is set, put its plan to work when the program starts RPC. A second call does nothing: it happens if
    a folder with a ``.pth`` file is twice on Python's path."""
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
