"""The published JSON Schemas: what is written fits them, and the judge and the schema agree on what an answer is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from reference.conform.answer import read_answer
from reference.conform.suite import Suite

SCHEMAS = Path(__file__).parents[2] / "docs" / "conformance"


def schema(name: str) -> jsonschema.Draft202012Validator:
    content = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(content)
    return jsonschema.Draft202012Validator(content)


def test_what_is_exported_fits_its_schemas(suite: Suite) -> None:
    schema("suite").validate(json.loads((suite.folder / "suite.json").read_text()))
    for case in suite.cases.values():
        schema("case").validate(json.loads((case.folder / "case.json").read_text()))


def test_what_is_not_a_case_does_not_fit(suite: Suite) -> None:
    content = json.loads((suite.cases["rnn-001"].folder / "case.json").read_text())
    for wrong in (
        {"protocol": 2},
        {"id": "rnn"},
        {"more": 1},
        {"outputs": [{"name": "a", "dtype": "F16", "shape": []}]},
    ):
        assert not schema("case").is_valid({**content, **wrong}), wrong
    assert not schema("case").is_valid({name: each for name, each in content.items() if name != "order"})


RESULTS: list[tuple[Any, bool]] = [
    ({}, True),
    ({"status": "done", "id": "dist_autograd-001"}, True),
    ({"status": "skipped", "reason": "no LSTM", "implementation": {"name": "mine"}}, True),
    ({"status": "skipped"}, False),
    ({"status": "skipped", "reason": " "}, False),
    ({"status": "fine"}, False),
    ({"status": ["done"]}, False),
    ({"reason": 1}, False),
    ({"more": 1}, False),
    ([], False),
]


@pytest.mark.parametrize(("result", "valid"), RESULTS, ids=str)
def test_judge_and_schema_agree_on_results(suite: Suite, result: Any, valid: bool, tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(json.dumps(result))
    case = suite.cases["dist_autograd-001"]
    problems = [each for each in read_answer(case, tmp_path).problems if each.startswith("result.json")]
    assert (not problems) == valid, problems
    assert schema("result").is_valid(result) == valid, problems
