"""Write a suite: its cases' files and their digests."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reference.conform.answer import commitment
from reference.conform.inputs import Prepared, prepare
from reference.conform.suite import PROTOCOL, SUITE, Entry, json_text
from reference.conform.tensor_file import write
from reference.system.files import filled, whole


def export(folder: Path, entries: Sequence[Entry]) -> None:
    """Write ``suite.json``, ``commitments.json`` and a folder of each case into ``folder``, which must be empty.

    Raises:
        Unusable: the folder cannot be made or written, is not empty, or another process fills it.
        OSError: the folder cannot be written any more.
    """
    with filled(folder):
        committed = {}
        for entry in entries:
            prepared = prepare(entry)
            write_case(folder / "cases" / entry.id, prepared)
            if prepared.case.is_exact:
                committed[entry.id] = {name: commitment(array) for name, array in prepared.outputs.items()}
        _write_json(folder / "commitments.json", committed)
        _write_json(folder / "suite.json", _index(folder, entries))  # last: a suite without it is not complete


def write_case(folder: Path, prepared: Prepared) -> None:
    """Write ``case.json`` and ``input.safetensors`` into a new folder. Raises OSError: it cannot be made."""
    folder.mkdir(parents=True)
    _write_json(folder / "case.json", prepared.describe())
    write(folder / "input.safetensors", prepared.inputs)


def _index(folder: Path, entries: Sequence[Entry]) -> dict[str, Any]:
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    digests = {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}
    return {"suite": SUITE, "protocol": PROTOCOL, "cases": [entry.id for entry in entries], "files": digests}


def _write_json(path: Path, content: Any) -> None:
    with whole(path) as scratch:
        scratch.write_text(json_text(content), encoding="utf-8")
