"""Compile source files with probes: before each statement, ``hits[number] = 1``, where ``hits`` is a file in memory.

All processes of a test share this file, so a hit counts however its process ends, by a signal too, and in whatever
thread it happens. coverage.py's own tracer does not see the threads in which torch executes calls, and the data of a
process that is killed are lost with it.

The compiled code lies where Python keeps compiled code, and is valid until its source changes. So every process that
imports the file executes it, whatever starts that process. Without the shared file, the probes do nothing.
"""

from __future__ import annotations

import ast
import fcntl
import hashlib
import importlib.util
import marshal
import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

# A file below the root and a line: that of a statement, a decorator or an `except`, or minus that of an `if` or a loop
# without `else`: hit when the condition is false, or the loop ends by itself.
Probe = tuple[str, int]

# Names the folder, the probes' variable and their number, for the processes of pytest that `run` starts.
VARIABLE = "TESTS_COVERAGE"
# Hits of imports, and of what ran before the first test, after the last one or between two.
NO_TEST = "(no test)"

# Runs once in a process. The name of `hits` is also that of the environment variable with the shared file's path. The
# mapping keeps a descriptor, which must not become a standard stream that is closed.
_OPEN = """
import builtins, mmap, os
try:
    handles = [os.open(os.environ[{name!r}], os.O_RDWR)]
    while handles[-1] < 3:
        handles.append(os.dup(handles[0]))
    builtins.{name} = mmap.mmap(handles[0], {size})
    for handle in handles:
        os.close(handle)
except (KeyError, OSError, ValueError):
    builtins.{name} = bytearray({size})
"""
# Some modules are started by their path, from which Python would compile the source itself.
_SCRIPT = '__file__ = globals().get("__cached__") or __file__'
_IS_SCRIPT = b'\nif __name__ == "__main__":'


MEASURED = ("reference", "faults", "torch_rpc_reference_plugin.py", "torch_rpc_reference_startup.py")


def sources(root: Path, measured: Sequence[str] = MEASURED) -> list[Path]:
    """Return the files of Python in these files and folders below ``root``."""
    return [path for name in measured for path in sorted((root / name).rglob("*.py")) or [root / name]]


class Probes:
    """The probes of source files below ``root``."""

    def __init__(self, root: Path, sources: Sequence[Path]) -> None:
        self.root = root
        self.texts = {path.relative_to(root).as_posix(): path.read_bytes() for path in sources}
        self.name = f"__hits_{_digest(sorted(self.texts.items()))[:8]}__"
        self.all: list[Probe] = []
        self._trees = {file: ast.parse(text) for file, text in self.texts.items()}
        for file, tree in self._trees.items():
            for node in ast.walk(tree):
                self._add(file, node)
        self.digest = _digest([self.name, *self.all])
        for file, tree in self._trees.items():
            self._begin(file, tree)

    def _add(self, file: str, node: ast.AST) -> None:
        """Put probes into the blocks of one node."""
        if isinstance(node, ast.If | ast.For | ast.While) and not node.orelse:
            node.orelse = [self._probe(file, node, -node.lineno)]
        elif isinstance(node, ast.ExceptHandler):
            node.body.insert(0, self._probe(file, node, node.lineno))
        for block in ("body", "orelse", "finalbody"):
            found = getattr(node, block, None)
            if isinstance(found, list):
                first = _first(found)
                new = [each for old in found[first:] for each in (*self._before(file, old), old)]
                setattr(node, block, [*found[:first], *new])

    def _before(self, file: str, statement: ast.stmt) -> list[ast.stmt]:
        if hasattr(statement, "probe"):
            return []
        lines = [each.lineno for each in getattr(statement, "decorator_list", ())]
        return [self._probe(file, statement, line) for line in (*lines, statement.lineno)]

    def _probe(self, file: str, at: ast.stmt | ast.ExceptHandler, line: int) -> ast.stmt:
        """Make a probe at the place of a node, so that no traceback changes."""
        hits, number = ast.Name(self.name, ast.Load()), ast.Constant(len(self.all))
        new = ast.Assign([ast.Subscript(hits, number, ast.Store())], ast.Constant(1))
        for each in ast.walk(new):
            ast.copy_location(each, at)
        new.probe = True  # type: ignore[attr-defined]
        self.all.append((file, line))
        return new

    def _begin(self, file: str, tree: ast.Module) -> None:
        """Let a file open the shared file, unless another one in this process has done so."""
        opened = _OPEN.format(name=self.name, size=len(self.all))
        text = f"hasattr(__import__('builtins'), {self.name!r}) or exec({opened!r}, {{}})\n"
        if _IS_SCRIPT in self.texts[file] and not file.endswith("__main__.py"):
            text += _SCRIPT
        first = _first(tree.body)
        tree.body[first:first] = ast.parse(text).body

    @property
    def packages(self) -> list[str]:
        """The top-level names of what has probes."""
        return sorted({file.partition("/")[0].removesuffix(".py") for file in self.texts})

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Let every process execute the probes from now on, until the end of the block.

        Raises:
            BlockingIOError: another process does so below the same ``root``.
        """
        places = {file: Path(importlib.util.cache_from_source(str(self.root / file))) for file in self.texts}
        folder = os.open(self.root, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                for file, place in places.items():
                    place.parent.mkdir(exist_ok=True)
                    place.write_bytes(self._compiled(file))
                yield
            finally:
                for place in places.values():
                    place.unlink(missing_ok=True)
        finally:
            os.close(folder)

    def _compiled(self, file: str) -> bytes:
        """Compile a file into the form in which Python caches it."""
        path = self.root / file
        state = path.stat()
        header = struct.pack("<III", 0, int(state.st_mtime) & 0xFFFFFFFF, state.st_size & 0xFFFFFFFF)
        code = compile(self._trees[file], path, "exec", dont_inherit=True)
        return importlib.util.MAGIC_NUMBER + header + marshal.dumps(code)


def _digest(content: Sequence[object]) -> str:
    return hashlib.sha256(repr(content).encode()).hexdigest()


def _first(block: Sequence[ast.stmt]) -> int:
    """Return how many statements have to stay first: a docstring, and imports from ``__future__``."""
    for number, each in enumerate(block):
        value = each.value if isinstance(each, ast.Expr) else None
        docstring = isinstance(value, ast.Constant) and isinstance(value.value, str)
        if not docstring and not (isinstance(each, ast.ImportFrom) and each.module == "__future__"):
            return number
    return len(block)
