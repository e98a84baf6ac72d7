"""The defaults of every tutorial's case: the published numbers, and the reason for each that is not."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path

import pytest

from reference import TUTORIALS, load
from reference.verify.verify import CASES, case_of, changes
from tests.project.published_defaults import PUBLISHED

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^(\w+) +(defaults|\w+=\w+) +(\d+) +(\d+) +[\d.]+ +bits equal in \d+ tensors +equal$", re.MULTILINE)


def test_every_tutorial_has_its_table() -> None:
    assert list(PUBLISHED) == list(TUTORIALS)


@pytest.mark.parametrize("name", TUTORIALS)
def test_every_field_of_a_case_has_the_default_of_the_table(name: str) -> None:
    """A new field needs an entry. The `repr` is compared, because 1, 1.0 and True are equal but three defaults."""
    got = {field: repr(value) for field, value in asdict(load(name).Case()).items()}
    assert got == {field: repr(default.value) for field, default in PUBLISHED[name].items()}


@pytest.mark.parametrize("name", TUTORIALS)
def test_a_default_says_where_it_is_published_or_why_it_is_not(name: str) -> None:
    for field, (value, where, published, why) in PUBLISHED[name].items():
        if published:
            assert all((where, why, published != str(value))), f"{field} differs: wanted all three"
        else:
            assert bool(where) != bool(why), f"{field}: wanted one of them"
        assert re.match(r"S[0-4] |$", where), field


@pytest.mark.parametrize("name", TUTORIALS)
def test_verify_begins_with_the_defaults_of_each_tutorial(name: str) -> None:
    """Fewer steps are allowed, as in the pipeline's row: three take a minute."""
    assert set(CASES[name][0]) <= {"steps"}


def test_the_readmes_table_has_rows_that_verify_runs() -> None:
    found = ROW.findall((ROOT / "README.md").read_text())
    assert [name for name, *_ in found] == list(TUTORIALS)
    for name, changed, roles, steps in found:
        cases = {changes(case) or "defaults": case for case in (case_of(name, given) for given in CASES[name])}
        assert (len(load(name).roles(cases[changed])), cases[changed].steps) == (int(roles), int(steps)), name
