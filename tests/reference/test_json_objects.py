"""JSON that anybody may have written: objects, their names, and the forms of their values."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from reference.system.files import Unusable
from reference.system.json_objects import (
    Form,
    NoObject,
    check_all,
    finite,
    integer,
    json_object,
    like,
    many,
    maybe,
    named,
    number,
    read_object,
    some,
    text,
)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("", "it must be a JSON object, got '' (Expecting value: line 1 column 1 (char 0))"),
        ("null", "it must be a JSON object, got 'null'"),
        ("[1]", "it must be a JSON object, got '[1]'"),
        (b"\xff", "it must be a JSON object, got b'\\xff'"),
        ("[" * 10**5, f"it must be a JSON object, got '{'[' * 116}..."),
        ('{"a": 1' + "0" * 5000 + "}", 'it must be a JSON object, got \'{"a": 1' + "0" * 109 + "..."),
        ('{"a": {"b": 1, "b": 1}}', "'b' is given twice"),
        ('{"\\u001b": 1, "\\u001b": 1}', "'\\x1b' is given twice"),
    ],
    ids=["empty", "null", "list", "bytes", "deep", "digits", "twice", "control"],
)
def test_what_is_no_object_is_refused_in_one_line(content: str | bytes, line: str) -> None:
    with pytest.raises(NoObject) as caught:
        json_object(content, "it")
    assert str(caught.value) == line


@pytest.mark.parametrize(
    ("form", "right", "wrong"),
    [
        (text, ["", "a"], [None, 1, ["a"]]),
        (integer, [0, -1], [True, 1.0, "1"]),
        (number, [0, 1.5, math.inf], [math.nan, -math.inf, 10**400, "1", True]),
        (finite, [0, 1.5], [math.inf, math.nan]),
        (maybe(integer), [None, 1], ["1"]),
        (many(text), [[], ["a"]], ["a", {"a": 1}, [1]]),
        (named(integer), [{}, {"a": 1}], [[1], {"a": "1"}, None]),
        (some(many(text)), [["a"]], [[], [1], None]),
        (like({"a": integer}), [{"a": 1}], [{}, {"a": "1"}, {"a": 1, "b": 1}, [], None]),
    ],
    ids=["text", "integer", "number", "finite", "maybe", "many", "named", "some", "like"],
)
def test_a_form_has_its_values_and_no_others(form: Form, right: list[Any], wrong: list[Any]) -> None:
    assert [form(value) for value in (*right, *wrong)] == [True] * len(right) + [False] * len(wrong)


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"a": "1", "b": "x"}, "'a' cannot be '1'"),
        ({"a": 1}, "missing field 'b'"),
        ({"a": 1, "b": "x", "\x1b": 1}, r"unknown field '\x1b'"),
    ],
)
def test_a_value_of_another_form_is_named(values: dict[str, Any], line: str) -> None:
    with pytest.raises(NoObject) as caught:
        check_all(values, {"a": integer, "b": text})
    assert str(caught.value) == line


def test_a_file_is_named_in_its_refusal(tmp_path: Path) -> None:
    (tmp_path / "f").write_text('{"a": 1}')
    assert read_object(tmp_path / "f") == {"a": 1}
    assert read_object(tmp_path / "f", {"a": integer}) == {"a": 1}
    with pytest.raises(Unusable) as caught:
        read_object(tmp_path / "f", {"a": text})
    assert str(caught.value) == f"{tmp_path / 'f'}: 'a' cannot be 1"
