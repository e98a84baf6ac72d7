"""The catalogue of cases: ids that are used once, cover all tutorials, and never mean another case.

`permanent_cases.txt` has a line for each id that was ever published: the SHA-256 of the case's numbers, for a core
case that of its ``case.json``, and for an exact one that of its commitments. A changed case gets a new id; its old
line stays in the file with the word ``retired``.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

import reference
from reference.conform.catalogue import CATALOGUE, Entry, chosen
from reference.conform.suite import Suite
from reference.verify.verify import case_of

LINES = Path(__file__).with_name("permanent_cases.txt").read_text().splitlines()
PERMANENT = {name: rest for name, *rest in map(str.split, LINES)}


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def line_of(entry: Entry, suite: Suite) -> list[str]:
    """What the file of permanent ids says of one case."""
    found = [digest(case_of(entry.tutorial, entry.fields).to_json().encode())]
    if entry.core:
        found.append(digest((suite.cases[entry.id].folder / "case.json").read_bytes()))
    if commitments := suite.commitments.get(entry.id):
        found.append(digest(json.dumps(commitments, sort_keys=True).encode()))
    return found


def test_ids_are_used_once_and_begin_with_their_tutorial() -> None:
    ids = [entry.id for entry in CATALOGUE]
    assert len(set(ids)) == len(ids)
    assert {entry.tutorial for entry in chosen("core")} == set(reference.TUTORIALS)


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.id)
def test_an_id_always_means_the_same_case(entry: Entry, suite: Suite) -> None:
    assert line_of(entry, suite) == PERMANENT.get(entry.id, []), f"{entry.id} {' '.join(line_of(entry, suite))}"


def test_no_id_was_lost() -> None:
    kept = {name for name, words in PERMANENT.items() if words != ["retired"]}
    assert kept == {entry.id for entry in CATALOGUE}
