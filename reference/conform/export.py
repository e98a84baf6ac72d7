"""Write a suite to a folder: every case's description and inputs, and no expected value."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reference.conform.case_file import Prepared, prepare
from reference.conform.catalogue import PROTOCOL, SUITE, Entry
from reference.conform.commitment import commitment
from reference.conform.tensor_file import write
from reference.system.atomic_file import whole


def export(folder: Path, entries: Sequence[Entry]) -> None:
    """Write ``suite.json``, ``commitments.json`` and a folder of each case into ``folder``, which must be empty.

    Raises:
        FileExistsError: the folder holds something.
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise FileExistsError(17, "the folder is not empty, wanted a new one", str(folder))
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
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    digests = {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    return {"suite": SUITE, "protocol": PROTOCOL, "cases": [entry.id for entry in entries], "files": digests}


def _write_json(path: Path, content: Any) -> None:
    with whole(path) as scratch:
        scratch.write_text(json.dumps(content, indent=1, sort_keys=True, allow_nan=False) + "\n", encoding="utf-8")
