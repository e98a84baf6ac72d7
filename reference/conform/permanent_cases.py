"""Check that a case on disk is the one that its id has always meant.

``permanent_cases.txt`` has a line for each id that was ever published: the SHA-256 of the case's numbers, for a core
case that of its ``case.json``, and for an exact one that of its commitments. A changed case gets a new id; its old
line stays in the file with the word ``retired``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reference.conform.catalogue import CATALOGUE

LINES = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines()
PERMANENT = {name: digests for name, *digests in map(str.split, LINES)}


def digests_of(numbers: Any, case_json: bytes, commitments: Mapping[str, str] | None) -> list[str]:
    """Return the digests of a case's numbers, of its ``case.json`` and, of an exact case, of its commitments."""
    found = [json.dumps(numbers, sort_keys=True).encode(), case_json]
    if commitments is not None:
        found.append(json.dumps(commitments, sort_keys=True).encode())
    return [hashlib.sha256(content).hexdigest() for content in found]


def changed_case(name: str, digests: Sequence[str]) -> str:
    """Say why a case with these digests (`digests_of`) is not the one of this id; empty if it is.

    Of a case that only the full suite has, the digest of its numbers alone is published.
    """
    if name not in [entry.id for entry in CATALOGUE]:
        return "this version has no such case"
    published = zip(("its numbers", "its case.json", "its commitments"), PERMANENT.get(name, []), strict=False)
    for (what, wanted), got in zip(published, digests, strict=False):
        if got != wanted:
            return f"{what} changed since this id was published"
    return ""
