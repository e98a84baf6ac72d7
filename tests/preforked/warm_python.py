"""Processes like those of ``python FILE``, ``python -m NAME`` and ``python -c TEXT``, which have torch already.

`warm_start` starts this script as a child of its process. For each order, it forks a process that becomes a child of
that one, because the process between them ends: the program has the parent that it would have had.

The program does not see torch before it imports it: until then modules of torch are out of `sys.modules`. So a plan of
FAULTS_RUN is put to work at the same moment as in a new process. Tracebacks and stacks have one more line, the last of
this file, because a frame of Python cannot be left out.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import importlib.abc
import os
import runpy
import signal
import site
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from multiprocessing import process
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.preforked import inheritance, spare_forkserver
else:
    import inheritance
    import spare_forkserver

# Where /proc/PID/stat says, after the name, where the command line and the environment begin and end.
_PLACES = slice(45, 49)

_TORCH, _RPC = "torch", "torch.distributed.rpc"

Program = tuple[Callable[..., object], tuple[object, ...]]


def main() -> Program:
    """Import torch, and then fork a process for every order. Return in those alone, with the program's code."""
    connection = socket.socket(fileno=int(sys.argv[1]))
    gc.disable()  # collections would find nothing in what is imported
    importlib.import_module(_RPC)
    gc.collect()
    gc.freeze()  # as `autostart` does it in a new process
    gc.enable()
    while True:
        order, handles = inheritance.received(connection)
        if not order:
            os._exit(0)  # nobody can send one any more
        (reader, writer), (adopted, orphan) = os.pipe(), os.pipe()
        between = os.fork()
        if between == 0:
            if pid := os.fork():
                os.write(writer, str(pid).encode())
                os._exit(0)
            os.close(orphan)
            os.read(adopted, 1)
            for each in (reader, writer, adopted, connection.detach()):
                os.close(each)
            return _become(handles, **order)
        for each in (writer, adopted, *handles):
            os.close(each)
        os.waitpid(between, 0)  # from now on the program is a child of the process that has sent the order
        # Only now it may enter that one's group: as long as its parent is of another group, the end of its parent would
        # leave the group an orphan, to which the kernel sends SIGHUP if a process of it is stopped.
        os.close(orphan)
        connection.send(os.read(reader, 16))
        os.close(reader)


def _become(handles: list[int], *, inherited: Mapping[str, Any], group: int, arguments: list[str]) -> Program:
    """Make this process what a new one is when it begins to execute its program, and return that.

    ``group``: its process group, 0 if it leads a session of its own.
    """
    if group:
        os.setpgid(0, group)
    else:
        os.setsid()
    for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:  # which Python ignores
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    inheritance.take_over(handles, **inherited)
    _show(arguments)
    _begin_anew()
    if arguments[1] == "-mpytest":  # pytester's
        spare_forkserver.offer()
    _Hidden()
    sys.orig_argv = arguments
    main = sys.modules["__main__"] = ModuleType("__main__")
    sys.modules["__mp_main__"] = main  # as multiprocessing does when it is imported
    vars(main).update(__builtins__=sys.modules["builtins"], __annotations__={})
    site.execsitecustomize()
    first, sys.argv, run, given = _program(arguments[1:], vars(main))
    sys.path.insert(0, first)
    return run, given


def _show(arguments: Sequence[str]) -> None:
    """Let /proc tell of this process what it would tell of a new one. A run finds its processes by their variables."""
    words = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    command, end_of_command, variables, end_of_variables = map(int, words[_PLACES])
    _overwrite(command, end_of_command, arguments)
    _overwrite(variables, end_of_variables, [f"{name}={value}" for name, value in os.environ.items()])


def _overwrite(place: int, end: int, texts: Sequence[str]) -> None:
    """Write these texts into this process's memory, where `warm_start` has made room, each with a zero after it."""
    ctypes.memmove(place, b"".join(os.fsencode(each) + b"\0" for each in texts).ljust(end - place, b"\0"), end - place)


def _begin_anew() -> None:
    """Reset what modules have read when they were imported, or have drawn."""
    if random := sys.modules.get("numpy.random"):  # later versions import it when it is used
        random.seed()
    process.ORIGINAL_DIR = os.getcwd()  # type: ignore[attr-defined]  # noqa: PTH109 (as text)
    for name in ("inheritance", "spare_forkserver", "sitecustomize"):
        sys.modules.pop(name, None)
    path = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:1] = [os.path.abspath(each) for each in path]  # noqa: PTH100 (as text)


def _program(
    words: list[str], main: dict[str, Any]
) -> tuple[str, list[str], Callable[..., object], tuple[object, ...]]:
    """Return the first entry of Python's path for a command, `sys.argv`, and what executes it, with its arguments."""
    here = os.getcwd()  # noqa: PTH109 (as text)
    first, *rest = words
    if first == "-c":
        return "", ["-c", *rest[1:]], exec, (compile(rest[0], "<string>", "exec", dont_inherit=True), main)
    if first.startswith("-m"):
        name, *rest = [first[2:], *rest] if first[2:] else rest
        return here, ["-m", *rest], runpy._run_module_as_main, (name,)  # type: ignore[attr-defined]
    file = os.path.join(here, first)  # noqa: PTH118 (as text)
    main.update(__file__=file, __cached__=None)
    code = compile(Path(file).read_bytes(), file, "exec", dont_inherit=True)
    return os.path.dirname(os.path.realpath(file)), words, exec, (code, main)  # noqa: PTH120 (as text)


class _Hidden(importlib.abc.Loader):
    """Takes torch out of `sys.modules`, hands it out when the program imports it, and then imports RPC as torch does.

    A method takes the place of `PathFinder.find_spec`, because `autostart` asks that one where torch is.
    """

    def __init__(self) -> None:
        names = [name for name in sys.modules if name.partition(".")[0] == _TORCH]
        self.kept = {name: sys.modules.pop(name) for name in names}
        self.specs = {name: self.kept[name].__spec__ for name in (_TORCH, _RPC)}
        self.find, PathFinder.find_spec = PathFinder.find_spec, self.find_spec  # type: ignore[method-assign, assignment]

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name in self.specs and name in self.kept:
            return ModuleSpec(name, self, is_package=True)
        return self.find(name, path, target)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.kept.pop(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = spec = self.specs[module.__name__]
        assert spec is not None
        module.__loader__ = spec.loader
        if module.__name__ == _TORCH:
            rpc = self.kept.pop(_RPC)
            sys.modules.update(self.kept)
            self.kept = {_RPC: rpc}
            importlib.import_module(_RPC)
        else:
            PathFinder.find_spec = self.find  # type: ignore[method-assign]


if __name__ == "__main__":
    run, given = main()
    run(*given)
