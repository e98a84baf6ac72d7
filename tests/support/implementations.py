"""Somebody's implementation, a command or a function, run and judged on any one case: ``pytest --implementation``."""

from __future__ import annotations

import importlib
import json
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from reference.conform.answer import read_answer
from reference.conform.export import write_case
from reference.conform.inputs import prepare
from reference.conform.judge import Found, Ran, ended_badly, judge_answer
from reference.conform.process import run_command
from reference.conform.suite import Entry, SuiteCase
from reference.conform.tensor_file import DTYPES, write
from reference.system.text import OneLine, shown
from reference.trace.case import Case

# An implementation in Python: the content of ``case.json`` and the inputs in, the outputs out; None: not offered.
Function = Callable[[dict[str, Any], dict[str, Any]], dict[str, Any] | None]


class NoImplementation(OneLine, ValueError):
    """A text names no command and no function that can be imported."""


@dataclass(frozen=True)
class Implementation:
    """Somebody's program: a command that gets ``CASE_DIR OUT_DIR``, or a function. ``seconds``: a run's limit."""

    command: tuple[str, ...] = ()
    function: Function | None = None
    seconds: float = 60.0

    @classmethod
    def of(cls, text: str) -> Implementation:
        """Make it of ``module:function``, or of a command as a shell splits it.

        Raises:
            NoImplementation: there is no such module, function or command.
        """
        module, colon, name = text.partition(":")
        if colon and module.replace(".", "_").isidentifier() and name.isidentifier():
            return cls(function=_imported(module, name))
        try:
            command = tuple(shlex.split(text))
        except ValueError as error:
            raise NoImplementation(f"{text!r}: {error}") from error
        if not command:
            raise NoImplementation(f"wanted a command or module:function, got {text!r}")
        if shutil.which(command[0]) is None:
            raise NoImplementation(f"{command[0]!r}: no such command, wanted one, or module:function")
        return cls(command)

    def judged(self, case: Case, folder: Path) -> Found:
        """Run it on ``case`` in a new ``folder``, and judge what it leaves.

        Raises:
            BadInput: the command cannot be started.
        """
        fields = json.loads(case.to_json())
        fields.pop("accumulation", None)  # an implementation adds in any order; the twin in its usual one
        reference = prepare(Entry(f"{case.tutorial()}-000", fields))
        given, out = folder / reference.entry.id, folder / "out"
        write_case(given, reference)
        out.mkdir()
        asked = SuiteCase(given, reference.describe())
        failed = self._run(asked, out)
        return failed or judge_answer(asked, read_answer(asked, out), None, reference)

    def _run(self, asked: SuiteCase, out: Path) -> Found | None:
        """Let it answer; returns its judgement if there is no answer to judge."""
        if self.function is None:
            ended = run_command([*self.command, str(asked.folder), str(out)], self.seconds)
            said = ended.stderr.decode(errors="replace").strip().rpartition("\n")[2]
            return ended_badly(Ran(ended.status, ended.seconds), said)
        found = self.function(deepcopy(asked.described), dict(asked.inputs))
        if found is None:
            return "skipped", "the function returned None", ()
        if why := _not_arrays(found):
            return "malformed", why, ()
        write(out / "trace.safetensors", found)
        return None


def _imported(module: str, name: str) -> Function:
    sys.path.insert(0, "")
    try:
        found: Function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise NoImplementation(f"{module}:{name}: {error}") from error
    finally:
        sys.path.remove("")
    if not callable(found):
        raise NoImplementation(f"{module}:{name}: got {shown(found)}, wanted a function")
    return found


def _not_arrays(found: Any) -> str:
    """Say why a function returned no arrays by name; empty if it did."""
    if not isinstance(found, Mapping):
        return f"the function returned {shown(found)}, wanted the outputs by name, or None"
    for name, array in found.items():
        if not isinstance(name, str) or not isinstance(array, np.ndarray | np.generic):
            return f"the function returned {shown(name)}: {shown(array)}, wanted a NumPy array by its name"
        if array.dtype.newbyteorder("<") not in DTYPES.values():
            return f"the function returned {shown(name)} of dtype {array.dtype}, wanted one of {', '.join(DTYPES)}"
    return ""
