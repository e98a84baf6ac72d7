"""Cases: accepted and refused values, the words of a refusal, and the JSON form."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reference import TUTORIALS, load
from reference.trace.case import Case, CaseError, choice_field, flag_field, number_field, power_of_two, text_field
from reference.verify.verify import CASES, case_of


@dataclass(frozen=True)
class Sample(Case):
    """One field of each kind, and one combination that cannot run."""

    size: int = number_field(3, "rows", at_least=1, at_most=9)
    free: int = number_field(0, "any integer")
    rate: float = number_field(0.5, "rate", at_least=0.0, at_most=2.0)
    word: str = choice_field("red", "green", "blue", help="colour")
    label: str = text_field("", "anything")
    fast: bool = flag_field(True, "whether it is fast")

    def validate(self) -> None:
        if self.word == "green":
            self.require(self.size > 1, "size", "at least 2 where word is 'green'")


@dataclass(frozen=True)
class Plain(Case):
    width: int = 4


CASE_TYPES: dict[str, type[Case]] = {name: load(name).Case for name in TUTORIALS}

KNOWN = "seed, steps, record, timeout, size, free, rate, word, label, fast"


def refusal(kind: type[Case], values: dict[str, Any]) -> str:
    with pytest.raises(CaseError) as caught:
        kind(**values)
    return str(caught.value)


# The highest values of each field, and those between its limits.
HIGHEST: dict[str, Any] = {"seed": 2**63 - 1, "steps": 2**1024 - 1, "record": "ends", "timeout": 1e6}
HIGHEST |= {"size": 9, "free": 2**1024 - 1, "rate": 2.0, "word": "green", "label": "any words\nat all", "fast": True}
BETWEEN = {
    "seed": st.integers(0, 2**63 - 1),
    "steps": st.integers(1, 2**80),
    "record": st.sampled_from(("every", "ends")),
    "timeout": st.floats(0.001, 1e6),
    "size": st.integers(2, 9),
    "free": st.integers(),
    "rate": st.floats(0.0, 2.0),
    "word": st.sampled_from(("red", "green", "blue")),
    "label": st.text(),
    "fast": st.booleans(),
}


@settings(deadline=None)
@given(st.fixed_dictionaries(BETWEEN))
@example(HIGHEST)
def test_json_round_trip(values: dict[str, Any]) -> None:
    """Every value and its type come back, and the JSON has only the fields."""
    case = Sample(**values)
    text = case.to_json()
    again = Sample.from_json(text)
    assert again == case
    assert asdict(again) == values
    assert [type(value) for value in asdict(again).values()] == [item.metadata["type"] for item in fields(Sample)]
    assert json.loads(text) == values
    assert again.to_json() == text


def test_json_is_one_line_with_sorted_keys() -> None:
    assert Sample(rate=1, word="blue").to_json() == (
        '{"fast": true, "free": 0, "label": "", "rate": 1.0, "record": "every", "seed": 0, "size": 3, "steps": 1, '
        '"timeout": 60.0, "word": "blue"}'
    )


def test_json_may_leave_fields_out() -> None:
    assert Sample.from_json('{"size": 7}') == Sample(size=7)
    assert Sample.from_json("{}") == Sample()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", "test_case: a case must be a JSON object, got 'x' (Expecting value: line 1 column 1 (char 0))"),
        ("[1]", "test_case: a case must be a JSON object, got '[1]'"),
        ('{"sise": 3}', f"test_case: unknown field 'sise', wanted one of {KNOWN}"),
        ('{"rate": NaN}', "test_case: rate must be finite, got nan"),
    ],
)
def test_bad_json_is_refused(text: str, message: str) -> None:
    with pytest.raises(CaseError) as caught:
        Sample.from_json(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"size": 0}, "size must be at least 1, got 0"),
        ({"size": 10}, "size must be at most 9, got 10"),
        ({"size": 2.0}, "size must be an integer, got 2.0"),
        ({"size": True}, "size must be an integer, got True"),
        ({"free": "1"}, "free must be an integer, got '1'"),
        ({"rate": -1e-300}, "rate must be at least 0.0, got -1e-300"),
        ({"rate": 3}, "rate must be at most 2.0, got 3"),
        ({"rate": math.nan}, "rate must be finite, got nan"),
        ({"rate": -math.inf}, "rate must be finite, got -inf"),
        ({"rate": "1"}, "rate must be a number, got '1'"),
        ({"rate": False}, "rate must be a number, got False"),
        ({"word": "pink"}, "word must be 'red' or 'green' or 'blue', got 'pink'"),
        ({"word": 1}, "word must be a word, got 1"),
        ({"label": 7}, "label must be a word, got 7"),
        ({"fast": "yes"}, "fast must be true or false, got 'yes'"),
        ({"word": "green", "size": 1}, "size must be at least 2 where word is 'green', got 1"),
        ({"seed": 2**63}, "seed must be at most 9223372036854775807, got 9223372036854775808"),
        ({"timeout": 0.0}, "timeout must be at least 0.001, got 0.0"),
        # RPC counts milliseconds in 32 bits: at 2147484 s and more each call fails at once.
        ({"timeout": 1e10}, "timeout must be at most 1000000.0, got 10000000000.0"),
    ],
)
def test_bad_values_are_refused(values: dict[str, Any], message: str) -> None:
    assert refusal(Sample, values) == f"test_case: {message}"


def test_a_huge_integer_is_refused_like_any_other() -> None:
    assert refusal(Sample, {"timeout": 10**400}).startswith("test_case: timeout must be ")


def test_equal_cases_have_equal_json() -> None:
    assert Sample(rate=-0.0) == Sample(rate=0.0)
    assert Sample(rate=-0.0).to_json() == Sample(rate=0.0).to_json()


@pytest.mark.parametrize("name", TUTORIALS)
def test_fields_say_what_they_are(name: str) -> None:
    """The annotated type is the one that is enforced, and every field has help."""
    for item in fields(CASE_TYPES[name]):
        assert item.type == item.metadata["type"].__name__, item.name
        assert item.metadata["help"].strip(), item.name


@pytest.mark.parametrize(
    ("name", "lr", "message"),
    [
        ("dist_autograd", 0.05, "lr must be a power of two in exact arithmetic, got 0.05"),
        ("parameter_server", 0.01, "lr must be a power of two in exact arithmetic, got 0.01"),
        (
            "batch_parameter_server",
            0.5,
            "model must be 'mlp' in exact arithmetic, got 'resnet50'; "
            "momentum must be a power of two in exact arithmetic, got 0.9; "
            "trainers must be a power of two in exact arithmetic, got 5",
        ),
    ],
)
def test_exact_arithmetic_needs_exact_numbers(name: str, lr: float, message: str) -> None:
    values = {"arithmetic": "exact", "dtype": "float64", "lr": lr}
    assert refusal(CASE_TYPES[name], values) == f"{name}: {message}"


def test_every_tutorial_is_verified() -> None:
    assert list(CASES) == list(TUTORIALS)
    assert all(set(CASES[name][0]) <= {"steps"} for name in TUTORIALS)
    for name, changes in CASES.items():
        made = [case_of(name, different) for different in changes]
        assert len(set(made)) == len(changes), name
        assert any(case.is_exact for case in made) == hasattr(CASE_TYPES[name], "arithmetic"), name


@pytest.mark.parametrize("name", [name for name, kind in CASE_TYPES.items() if kind.EXACT])
def test_an_exact_case_takes_what_fits_and_keeps_what_is_given(name: str) -> None:
    kind: Any = CASE_TYPES[name]
    case = kind.exact(seed=7, lr=0.5)
    assert case.dtype == "float64"
    assert case == kind(**{**kind.EXACT, "arithmetic": "exact", "seed": 7, "lr": 0.5})


def test_a_tutorial_without_exact_arithmetic_says_so() -> None:
    with pytest.raises(CaseError, match=r"^rnn: no exact arithmetic, wanted one of the tutorials that have it$"):
        CASE_TYPES["rnn"].exact()


# Fields that decide only where or how fast a case runs; every other field decides the result.
ELSEWHERE = {
    "parameter_server": {"device"},
    "batch_parameter_server": {"device"},
    "sharded_parameter_server": {"device"},
    "pipeline": {"device", "transfer", "rpc_threads"},
    "rnn": {"text"},  # the name of a file, whose bytes `text_sha256` decides
}


@pytest.mark.parametrize("name", TUTORIALS)
def test_cases_have_the_same_result_if_all_fields_that_decide_it_are_equal(name: str) -> None:
    kind = CASE_TYPES[name]
    case = kind()
    for item in fields(kind):
        other = copy.copy(case)
        object.__setattr__(other, item.name, "another")  # whatever it may hold
        assert case.same_result_as(other) == (item.name in {"timeout", *ELSEWHERE.get(name, ())}), item.name
        assert case != other


@settings(deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-1074, 1023).map(lambda e: math.ldexp(1.0, e)))
def test_powers_of_two_and_zero_are_recognised(value: float) -> None:
    """Compare with exact fractions: one bit in the numerator, and a float's denominator is a power of two."""
    assert power_of_two(value) == (abs(Fraction(value).numerator).bit_count() <= 1)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_other_numbers_are_no_powers_of_two(value: float) -> None:
    assert power_of_two(value) is False


def test_a_plain_field_is_named() -> None:
    line = "test_case: width is a plain field, wanted one of number_field or the like"
    assert refusal(Plain, {}) == line
