"""The catalogue of cases, and a suite of them on disk, of which no file has changed. Imports no torch."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

from reference.conform.tensor_file import DTYPES, Array, Malformed, read
from reference.system.files import Unusable, content_of
from reference.system.json_objects import Form, integer, like, many, mapping, named, read_object, text
from reference.system.text import BadInput, OneLine, shown

# The version of the whole suite (year and month), and of the protocol between it and an implementation.
SUITE, PROTOCOL = "2026.12", 1

_EXACT = {"arithmetic": "exact"}
_IMAGES = {"image_w": 8, "image_h": 6, "num_classes": 5}  # not square, so that (w, h) and (h, w) differ
_MLP = {"model": "mlp", **_IMAGES}
_SHORT = {"dtype": "bfloat16"}  # with a rate that moves each parameter by more than its rounding


@dataclass(frozen=True)
class Entry:
    """One case of the suite. ``core``: it is in the core suite, too, which is small and takes seconds."""

    id: str
    fields: Mapping[str, Any]
    core: bool = True

    @property
    def tutorial(self) -> str:
        return self.id.rpartition("-")[0]


CATALOGUE = (
    Entry("rpc_basics-001", {"steps": 2}),
    Entry("rref_dataflow-001", {"steps": 2, "side": 128}),
    Entry("dist_autograd-001", {"contexts": 3, "steps": 3, **_EXACT}),
    Entry("dist_autograd-002", {}),
    Entry("parameter_server-001", {"steps": 4, **_EXACT}),
    Entry("parameter_server-002", {"steps": 3, "workers": 3, "outputs": 2, **_EXACT}),
    Entry("parameter_server-003", {"steps": 8, "workers": 3, "staleness": 0}),
    Entry("parameter_server-004", {"steps": 20, "outputs": 3}),
    Entry("parameter_server-005", {"steps": 6, "workers": 2, "outputs": 2, "dtype": "float64"}),
    Entry("batch_parameter_server-001", {**_IMAGES, **_EXACT}),
    Entry("batch_parameter_server-002", {"steps": 4, "trainers": 3, "batch_size": 4, "lr": 0.05, **_MLP}),
    Entry("batch_parameter_server-003", {"steps": 4, "trainers": 3, "batch_size": 4, **_MLP, "model": "convnet"}),
    Entry("batch_parameter_server-004", {"steps": 3, "batch_size": 4, **_MLP, "model": "convnet", "dtype": "float64"}),
    Entry("batch_parameter_server-005", {"steps": 3, "batch_size": 4, "trainers": 3, "lr": 0.5, **_MLP, **_SHORT}),
    Entry("sharded_parameter_server-001", {"servers": 3, **_IMAGES, **_EXACT}),
    Entry("sharded_parameter_server-002", {"steps": 4, "servers": 2, **_MLP, "model": "convnet"}),
    Entry("reinforce-001", {"observers": 2, "steps": 3, "dtype": "float64"}),
    Entry("reinforce-002", {"observers": 3, "steps": 2, "dropout": 0.0, "seed": 1}),
    Entry("batch_reinforce-001", {"observers": 3, "steps": 2, "n_steps": 40, "gamma": 0.9, "dtype": "float64"}),
    Entry("batch_reinforce-002", {"observers": 2, "steps": 2, "n_steps": 30, "batch": False}),
    Entry("rnn-001", {"steps": 7, "ninp": 4, "nhid": 6, "nlayers": 2, "dropout": 0.0, "lr": 1.0, "dtype": "float64"}),
    Entry("rnn-002", {"steps": 7, "ninp": 4, "nhid": 6, "nlayers": 3}),
    Entry("rnn-003", {"steps": 2, "batches": 2, "nhid": 6, "nlayers": 2, "dropout": 0.2, "lr": 50.0, **_SHORT}),
    Entry("pipeline-001", {**_IMAGES, **_EXACT}),
    Entry("pipeline-002", {"steps": 3, "batch_size": 10, **_MLP}),  # micro-batches of 3, 3, 2 and 2 images
    Entry("hybrid_ddp-001", {"rows": 20, **_EXACT}),
    Entry("hybrid_ddp-002", {"steps": 4, "rows": 20, "trainers": 3}),
    Entry("batch_parameter_server-101", {"steps": 2, "trainers": 2, "batch_size": 8}, core=False),
    Entry("sharded_parameter_server-101", {"steps": 2, "trainers": 2}, core=False),
    Entry("pipeline-101", {"steps": 1, "num_split": 3, "batch_size": 8, "image_w": 64, "image_h": 48}, core=False),
    Entry("rnn-101", {}, core=False),
    Entry("hybrid_ddp-101", {"trainers": 5}, core=False),
)


def matching(ids: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """Return the ids that match one of the patterns, or all if there is no pattern. Raises BadInput: one has none."""
    every = list(ids)
    for pattern in patterns:
        if not any(fnmatchcase(each, pattern) for each in every):
            raise BadInput(f"no case matches {shown(pattern)}, wanted for instance {', '.join(every[:2])}")
    return [each for each in every if not patterns or any(fnmatchcase(each, pattern) for pattern in patterns)]


def chosen(suite: str, *patterns: str) -> list[Entry]:
    """Choose entries of the core or the full suite by `matching`."""
    entries = {entry.id: entry for entry in CATALOGUE if entry.core or suite == "full"}
    return [entries[each] for each in matching(entries, patterns)]


# Each id that was ever published, and its digests.
_LINES = Path(__file__).with_name("permanent_cases.txt").read_text(encoding="utf-8").splitlines()
PERMANENT = {name: digests for name, *digests in map(str.split, _LINES)}


def changed_case(name: str, digests: Sequence[str]) -> str:
    """Say why a case with these digests (`digests_of`) is not the one of this id; empty if it is.

    Of a case that only the full suite has, the digest of its numbers alone is published.
    """
    if name not in [entry.id for entry in CATALOGUE]:
        return "this version has no such case"
    if not (published := PERMANENT.get(name)):
        return f"permanent_cases.txt lacks its id, wanted {' '.join((name, *digests))}"
    for what, wanted, got in zip(("its numbers", "its case.json", "its commitments"), published, digests, strict=False):
        if got != wanted:
            return f"{what} changed since this id was published"
    return "" if (len(digests) > 2) == (len(published) > 2) else "its commitments are missing, or it must have none"


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

    @cached_property
    def outputs(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Dtype and shape of each tensor that is wanted."""
        return _listed(self.described["outputs"])

    @cached_property
    def optional(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """The same of each tensor that an answer may have besides."""
        return _listed(self.described["optional"])

    @property
    def bytes(self) -> int:
        """How many bytes all tensors have together that an answer may have."""
        every = (self.outputs | self.optional).values()
        return sum(DTYPES[dtype].itemsize * math.prod(shape) for dtype, shape in every)


def _listed(tensors: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {each["name"]: (each["dtype"], tuple(each["shape"])) for each in tensors}


@dataclass(frozen=True)
class Suite:
    """A suite on disk, whose files are those that were exported."""

    folder: Path
    version: str
    cases: dict[str, SuiteCase]
    commitments: dict[str, dict[str, str]]


# The fields of ``suite.json`` and of ``case.json``.
_INDEX = {"suite": text, "protocol": integer, "cases": many(text), "files": named(text)}
_TENSORS = many(like({"name": text, "dtype": lambda value: text(value) and value in DTYPES, "shape": many(integer)}))
_CASE = {
    **dict.fromkeys(("id", "tutorial", "order", "specification"), text),
    "protocol": integer,
    "case": mapping,
    "inputs": _TENSORS,
    "outputs": _TENSORS,
    "optional": _TENSORS,
    "requirements": many(text),
}


def open_suite(folder: Path) -> Suite:
    """Read the suite in ``folder``.

    Raises:
        SuiteBroken: it is no suite of this protocol, a file of it is missing, new or changed, or a case is not the one
            that its id has always meant.
    """
    index = _object(folder / "suite.json", _INDEX)
    if index["protocol"] != PROTOCOL:
        raise SuiteBroken(f"{folder}: protocol {shown(index['protocol'])}, wanted {PROTOCOL}")
    _check_files(folder, index["files"])
    commitments = _object(folder / "commitments.json")
    if not named(named(text))(commitments):
        raise SuiteBroken(f"{folder / 'commitments.json'}: wanted the digest of each tensor of each case")
    cases = {name: _case(folder / "cases" / name, commitments.get(name)) for name in index["cases"]}
    return Suite(folder, index["suite"], cases, commitments)


def _case(folder: Path, commitments: dict[str, str] | None) -> SuiteCase:
    described = _object(folder / "case.json", _CASE, optional=[])  # of a suite from before there were any
    if why := changed_case(folder.name, digests_of(described, commitments)):
        raise SuiteBroken(f"{folder}: {why}")
    if described["id"] != folder.name:
        raise SuiteBroken(f"{folder}: it describes another case")
    return SuiteCase(folder, described)


def digests_of(described: Mapping[str, Any], commitments: Mapping[str, str] | None) -> list[str]:
    """Return the digests of a case's numbers, of its ``case.json`` and, of an exact case, of its commitments.

    Optional tensors do not count: a case stays the same where more of them are offered.
    """
    wanted = {name: content for name, content in described.items() if name != "optional"}
    found = [json.dumps(described["case"], sort_keys=True).encode(), json_text(wanted).encode()]
    if commitments is not None:
        found.append(json.dumps(commitments, sort_keys=True).encode())
    return [hashlib.sha256(content).hexdigest() for content in found]


def json_text(content: Any) -> str:
    """Return the text of a suite's JSON file."""
    return json.dumps(content, indent=1, sort_keys=True) + "\n"


def _check_files(folder: Path, digests: dict[str, str]) -> None:
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()} - {"suite.json"}
    for missing in sorted(set(digests) - there):
        raise SuiteBroken(f"{folder}: {shown(missing)} is missing")
    for new in sorted(there - set(digests)):
        raise SuiteBroken(f"{folder}: {shown(new)} is no file of the suite")
    for name, digest in digests.items():
        try:
            content = content_of(folder / name, LONGEST)
        except Unusable as error:
            raise SuiteBroken(str(error)) from error
        if hashlib.sha256(content).hexdigest() != digest:
            raise SuiteBroken(f"{folder}: {name} has changed since the suite was exported")


def _object(path: Path, forms: Mapping[str, Form] | None = None, **absent: Any) -> dict[str, Any]:
    try:
        return read_object(path, forms, LONGEST, **absent)
    except Unusable as error:
        raise SuiteBroken(str(error)) from error
