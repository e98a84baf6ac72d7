"""The catalogue of cases: ids that are used once, cover all tutorials, and never mean another case.

`reference/conform/permanent_cases.txt` has a line for each id that was ever published.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

import reference
from reference.conform.export import export
from reference.conform.suite import CATALOGUE, PERMANENT, Entry, changed_case, chosen, open_suite
from reference.verify.verify import case_of


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_ids_are_used_once_and_begin_with_their_tutorial() -> None:
    ids = [entry.id for entry in CATALOGUE]
    assert len(set(ids)) == len(ids)
    assert {entry.tutorial for entry in chosen("core")} == set(reference.TUTORIALS)


def test_every_tutorial_has_a_page_for_other_implementations() -> None:
    pages = {page.stem for page in (Path(__file__).parents[2] / "docs" / "conformance").glob("*.md")}
    assert pages == {*reference.TUTORIALS, "matrix"}


@pytest.mark.parametrize("entry", [entry for entry in CATALOGUE if not entry.core], ids=lambda entry: entry.id)
def test_an_id_always_means_the_same_case(entry: Entry) -> None:
    """Those of the core suite are checked where that is opened: in the fixture ``suite``."""
    assert changed_case(entry.id, [digest(case_of(entry.tutorial, entry.fields).to_json().encode())]) == ""


def test_an_id_that_is_not_published_is_told_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(PERMANENT, "rnn-001")
    assert changed_case("rnn-001", ["0", "1"]) == "permanent_cases.txt lacks its id, wanted rnn-001 0 1"


def test_no_id_was_lost() -> None:
    kept = {name for name, words in PERMANENT.items() if words != ["retired"]}
    assert kept == {entry.id for entry in CATALOGUE}
    assert {name for name in kept if len(PERMANENT[name]) > 1} == {entry.id for entry in chosen("core")}


def test_a_case_is_told_from_the_one_that_its_id_has_always_meant() -> None:
    numbers, described, commitments = PERMANENT["pipeline-001"]
    assert changed_case("pipeline-001", [numbers, described, commitments]) == ""
    assert changed_case("pipeline-001", [numbers, "0", commitments]).startswith("its case.json changed")
    assert changed_case("pipeline-001", [numbers, described, "0"]).startswith("its commitments changed")
    assert changed_case("pipeline-101", ["0", "0"]).startswith("its numbers changed")
    assert changed_case("pipeline-101", [*PERMANENT["pipeline-101"], "0"]) == ""
    assert changed_case("pipeline-001", [numbers, described]).startswith("its commitments are missing")
    assert changed_case("pipeline-002", [*PERMANENT["pipeline-002"], "0"]).endswith("or it must have none")
    assert changed_case("pipeline-900", [numbers, described]) == "this version has no such case"


def test_a_suite_from_before_there_were_optional_tensors_is_one(tmp_path: Path) -> None:
    name = "rref_dataflow-001"
    export(tmp_path, chosen("core", name))
    described, index = (json.loads((tmp_path / each).read_text()) for each in (f"cases/{name}/case.json", "suite.json"))
    del described["optional"]
    (tmp_path / "cases" / name / "case.json").write_text(json.dumps(described))
    index["files"][f"cases/{name}/case.json"] = digest(json.dumps(described).encode())
    (tmp_path / "suite.json").write_text(json.dumps(index))
    assert open_suite(tmp_path).cases[name].optional == {}
