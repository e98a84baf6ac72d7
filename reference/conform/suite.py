"""Read a suite that `export` wrote, and check that no file of it has changed. Imports no torch."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from reference.conform.catalogue import PROTOCOL
from reference.conform.permanent_cases import changed_case, digests_of
from reference.conform.tensor_file import DTYPES, Array, Malformed, read
from reference.system.plain_file import content_of
from reference.system.printable import OneLine, shown
from reference.system.strict_json import once

# The largest file of a suite in bytes.
LONGEST = 2**30


class SuiteBroken(OneLine, ValueError):
    """A folder holds no suite of this version, or a file of it has changed since it was exported."""


@dataclass(frozen=True)
class SuiteCase:
    """One case of a suite on disk."""

    folder: Path
    described: dict[str, Any]

    @property
    def id(self) -> str:
        return self.folder.name

    @cached_property
    def inputs(self) -> dict[str, Array]:
        try:
            found = read(self.folder / "input.safetensors", LONGEST)
        except Malformed as error:
            raise SuiteBroken(f"{self.folder}: {error}") from error
        for name, problem in found.problems.items():
            raise SuiteBroken(f"{self.folder}: {name}: {problem}")
        return found.arrays

    @property
    def outputs(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Dtype and shape of each tensor that is wanted."""
        return {each["name"]: (each["dtype"], tuple(each["shape"])) for each in self.described["outputs"]}

    @property
    def bytes(self) -> int:
        """How many bytes the wanted tensors have together."""
        return sum(np.dtype(DTYPES[dtype]).itemsize * math.prod(shape) for dtype, shape in self.outputs.values())


@dataclass(frozen=True)
class Suite:
    """A suite on disk, whose files are those that were exported."""

    folder: Path
    version: str
    cases: dict[str, SuiteCase]
    commitments: dict[str, dict[str, str]]

    def chosen(self, pattern: str) -> list[SuiteCase]:
        """The cases whose id matches ``pattern``."""
        return [case for name, case in self.cases.items() if fnmatchcase(name, pattern)]


def open_suite(folder: Path) -> Suite:
    """Read the suite in ``folder``.

    Raises:
        SuiteBroken: it is no suite of this protocol, a file of it is missing, new or changed, or a case is not the one
            that its id has always meant.
    """
    index = _json(folder / "suite.json")
    if not isinstance(index, dict) or set(index) != {"suite", "protocol", "cases", "files"}:
        raise SuiteBroken(f"{folder / 'suite.json'}: wanted suite, protocol, cases and files")
    if index["protocol"] != PROTOCOL:
        raise SuiteBroken(f"{folder}: protocol {shown(index['protocol'])}, wanted {PROTOCOL}")
    _check_files(folder, index["files"])
    commitments = _json(folder / "commitments.json")
    cases = {name: _case(folder / "cases" / name, commitments.get(name)) for name in index["cases"]}
    return Suite(folder, index["suite"], cases, commitments)


def _case(folder: Path, commitments: dict[str, str] | None) -> SuiteCase:
    content = _content(folder / "case.json")
    described = _parsed(folder / "case.json", content)
    if not isinstance(described, dict) or not {"id", "case", "outputs", "requirements"} <= set(described):
        raise SuiteBroken(f"{folder / 'case.json'}: wanted id, case, outputs and requirements")
    digests = digests_of(described["case"], content, commitments)
    if why := changed_case(folder.name, digests):
        raise SuiteBroken(f"{folder}: {why}")
    unknown = {each["dtype"] for each in described["outputs"]} - set(DTYPES)
    if described["id"] != folder.name or unknown:
        raise SuiteBroken(f"{folder}: it describes another case, or has a dtype that is none")
    return SuiteCase(folder, described)


def _check_files(folder: Path, digests: dict[str, str]) -> None:
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()} - {"suite.json"}
    for missing in sorted(set(digests) - there):
        raise SuiteBroken(f"{folder}: {shown(missing)} is missing")
    for new in sorted(there - set(digests)):
        raise SuiteBroken(f"{folder}: {shown(new)} is no file of the suite")
    for name, digest in digests.items():
        if hashlib.sha256(_content(folder / name)).hexdigest() != digest:
            raise SuiteBroken(f"{folder}: {name} has changed since the suite was exported")


def _content(path: Path) -> bytes:
    try:
        return content_of(path, LONGEST)
    except OSError as error:
        raise SuiteBroken(f"{path}: {error.strerror}") from error


def _json(path: Path) -> Any:
    return _parsed(path, _content(path))


def _parsed(path: Path, content: bytes) -> Any:
    try:
        return json.loads(content, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise SuiteBroken(f"{path}: not JSON ({error})") from error
