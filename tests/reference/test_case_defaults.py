"""The defaults of every tutorial's case are the values of the published texts."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path

import pytest

from reference import TUTORIALS, load
from reference.trace.case import CaseError
from reference.verify.verify import CASES, case_of, changes

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^(\w+) +(defaults|\w+=\w+) +(\d+) +(\d+) +[\d.]+ +bits equal in \d+ tensors +equal$", re.MULTILINE)


_CARTPOLE = {"lr": 0.01, "env": "CartPole-v1"}
# Of each tutorial: the values that a published text names, by where it does. "S0 2.3" is a text, by the short names of
# docs/errata.md, with its section and the listing in it. S3, a talk, names no numbers.
PUBLISHED: dict[str, dict[str, dict[str, object]]] = {
    "rpc_basics": {"S0 1": {"steps": 1}, "S0 1.2": {"size": 3}},
    # Of two processes one is the server, or the agent.
    "parameter_server": {
        "S1 2": {"workers": 1, "batch_size": 5, "inputs": 10, "outputs": 1, "lr": 0.01, "device": "cpu"},
    },
    "batch_parameter_server": {
        "S2 server": {"steps": 6, "trainers": 5, "model": "resnet50", "batch_size": 20, "image_w": 64, "image_h": 64}
        | {"num_classes": 30, "lr": 0.001, "momentum": 0.9},
    },
    "reinforce": {"S0 2.1": {"dropout": 0.6}, "S0 2.2": _CARTPOLE, "S0 2.3": {"steps": 100, "observers": 1}},
    "batch_reinforce": {"S2 CartPole": {**_CARTPOLE, "dropout": 0.6, "seed": 543, "steps": 10, "gamma": 1.0}},
    "rnn": {
        "S0 3.1": {"dropout": 0.5},
        # 10 epochs of 5 batches.
        "S0 3.2": {"steps": 50, "batches": 5, "sequence": 5, "batch_size": 3, "ninp": 2, "nhid": 3, "nlayers": 4}
        | {"lr": 0.05},
    },
    "pipeline": {
        "S4 1": {"model": "resnet50", "num_classes": 1000, "transfer": "cpu"},
        "S4 3": {"steps": 3, "batch_size": 120, "image_w": 128, "image_h": 128, "lr": 0.05},
        "S4 4": {"rpc_threads": 128},
    },
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_defaults_are_the_published_values(name: str) -> None:
    """The `repr` is compared, because 1, 1.0 and True are equal but three defaults."""
    case = load(name).Case()
    for where, values in PUBLISHED[name].items():
        assert {field: repr(getattr(case, field)) for field in values} == {f: repr(v) for f, v in values.items()}, where


# A case with none of these is one; with none of anything else there is nothing to train.
MAY_BE_NONE = {"seed", "lr", "dropout", "momentum", "staleness", "gamma"}
# These have no largest number, because they decide neither the number of roles nor the memory that one step needs.
ANY_NUMBER = {"steps", "batches", "lr", "momentum"}


@pytest.mark.parametrize("name", TUTORIALS)
def test_what_is_counted_or_measured_has_a_least_and_a_largest_number(name: str) -> None:
    numbers = [item for item in fields(load(name).Case) if item.metadata["type"] in (int, float)]
    assert {item.name for item in numbers if item.metadata["at_least"] <= 0} <= MAY_BE_NONE
    assert {item.name for item in numbers if item.metadata["at_most"] is None} <= ANY_NUMBER


@pytest.mark.parametrize("name", TUTORIALS)
def test_a_field_scales_if_one_more_is_one_role_more(name: str) -> None:
    """Servers do not scale: torchrun's processes are as many as a program's author wants trainers."""
    tutorial = load(name)
    case = tutorial.Case()
    for item in fields(case):
        if item.metadata["type"] is int and item.name != "servers":
            with suppress(CaseError):
                more = tutorial.roles(replace(case, **{item.name: getattr(case, item.name) + 1}))
                assert (len(more) > len(tutorial.roles(case))) == item.metadata["scales"], item.name


def test_the_readmes_tables_have_each_tutorial_and_rows_that_verify_runs() -> None:
    page = (ROOT / "README.md").read_text()
    found = ROW.findall(page)
    assert [name for name, *_ in found] == list(TUTORIALS)
    assert re.findall(r"^\| \[`(\w+)`\]\(reference/", page, re.M) == list(TUTORIALS)
    for name, changed, roles, steps in found:
        cases = {changes(case) or "defaults": case for case in (case_of(name, given) for given in CASES[name])}
        assert len(load(name).roles(cases[changed])) == int(roles), name
        assert cases[changed].steps == int(steps), name
