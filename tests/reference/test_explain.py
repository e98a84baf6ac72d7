"""The explainer: each mistake is named, and no other one is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from reference.conform.selftest.broken import Broken
from reference.conform.selftest.other_mistakes import EXACT_PASSES as PASSES
from reference.conform.selftest.selftest import MISTAKES, judged
from reference.conform.suite import CATALOGUE, Suite
from reference.conform.twin import prepared
from reference.explain.difference import View
from reference.explain.explain import explain, hypotheses
from reference.explain.step_models import step_model_of
from reference.trace.names import in_causal_order, place_of, structure


@pytest.mark.long
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: each.name)
def test_each_mistake_is_named(mistake: Broken, suite: Suite, tmp_path: Path) -> None:
    """By the explainer, and by the judge of the kit, as the self-test has it."""
    healthy = prepared(mistake.case)
    tensors = mistake.tensors(healthy)
    found = explain(tensors, healthy.twin)
    assert found.cause == mistake.cause, found
    assert mistake.told in str(found), found
    tested = judged(suite, mistake, tensors, tmp_path / "answer")
    assert tested.holds, tested


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "place"),
    [("gradients recorded late", "step 0001, gradient"), ("next batch's labels", "step 0002, loss")],
)
def test_the_first_difference_is_where_the_mistake_begins(name: str, place: str) -> None:
    (mistake,) = [each for each in MISTAKES if each.name == name]
    healthy = prepared(mistake.case)
    found = explain(mistake.tensors(healthy), healthy.twin)
    assert found.lines[0].startswith(f"First difference: {place}. ")


@pytest.mark.long
def test_each_hypothesis_has_a_broken_implementation_that_it_names() -> None:
    tried = set()
    for entry in (each for each in CATALOGUE if each.core):
        twin = prepared(entry.id).twin
        for name in twin.tensors:
            step, stage = place_of(name)
            if step >= 0 and name == min(n for n in twin.tensors if place_of(n) == (step, stage)):
                tried |= {each.id for each in hypotheses(View(twin.tensors, twin, name, step_model_of(twin)))}
    assert len(tried) > 25
    assert tried <= {each.cause for each in MISTAKES}


@pytest.mark.parametrize("name", [entry.id for entry in CATALOGUE if entry.core])
def test_a_healthy_trace_has_no_difference(name: str) -> None:
    twin = prepared(name).twin
    assert explain({key: tensor.clone() for key, tensor in twin.tensors.items()}, twin).cause == ""


def test_the_first_difference_is_the_first_by_cause_not_by_name() -> None:
    names = ["0001/gradient/a", "0000/parameter/a", "initial/a", "0001/loss/b", "0000/buffer/a", "0000/loss/z"]
    assert in_causal_order(names) == [
        "initial/a", "0000/loss/z", "0000/parameter/a", "0000/buffer/a", "0001/loss/b", "0001/gradient/a"
    ]  # fmt: skip


def test_of_gradients_that_of_the_last_layer_comes_first() -> None:
    layers = ["emb_table/encoder.weight", "rnn/weight_hh_l0", "rnn/weight_hh_l1", "decoder/decoder.weight"]
    gradients = in_causal_order(f"0000/gradient/{layer}" for layer in layers)
    assert gradients == [f"0000/gradient/{layer}" for layer in reversed(layers)]
    many = [f"0000/gradient/{number}.weight" for number in (2, 10, 1)]
    assert [name.split("/")[2] for name in in_causal_order(many)] == ["10.weight", "2.weight", "1.weight"]


def test_initial_parameters_are_no_sum() -> None:
    twin = prepared("parameter_server-003").twin
    doubled = {name: 2 * tensor if name.startswith("initial/") else tensor for name, tensor in twin.tensors.items()}
    assert explain(doubled, twin).cause == "unexplained"


def test_numbers_that_only_rounding_changed_do_not_count_in_a_natural_case() -> None:
    twin = prepared("batch_parameter_server-002").twin
    name = next(name for name in twin.tensors if "gradient" in name and twin.tensors[name].numel() > 10)
    mine = twin.tensors[name] * (1 + 2 * torch.finfo(twin.tensors[name].dtype).eps)
    mine.view(-1)[7] += 1
    found = explain({**twin.tensors, name: mine}, twin)
    assert f"{name}: 1 of {mine.numel()} numbers differ by more than rounding" in str(found)


def test_missing_names_are_one_line_per_reason() -> None:
    wanted = [f"{step:04d}/{kind}/{name}" for step in range(3) for kind in ("gradient", "loss") for name in "ab"]
    assert structure(wanted, wanted) == []
    later = [f"{int(name[:4]) + 1:04d}{name[4:]}" for name in wanted]
    assert structure(later, wanted) == ["yours lacks step 0000 and has a step 0003: counted from 1?"]
    without = [name for name in wanted if "gradient" not in name]
    assert structure(without, wanted) == ["yours lacks gradient/* in every step, 6 tensors"]
    assert structure(wanted[1:], wanted) == ["yours lacks 0000/gradient/a"]
    assert structure([*wanted, "x"], wanted) == ["yours has, and the reference does not, x"]
    start = ["initial/a", "initial/b"]
    assert structure(wanted, [*start, *wanted]) == ["yours lacks 2 tensors initial/*, the first is initial/a"]
    assert structure(wanted[2:], wanted) == [
        "yours lacks 2 tensors gradient/* of step 0000, the first is 0000/gradient/b"
    ]


def test_a_distance_across_zero_is_not_told_in_ulps() -> None:
    twin = prepared(PASSES).twin
    name = "0000/gradient/context0/worker1"
    right = twin.tensors[name]
    for wrong, told in ((-right, False), (0 * right, False), (right + 2.0**-40, True)):
        found = str(explain({**twin.tensors, name: wrong}, twin))
        assert bool(re.search(r"\d ULPs", found)) == told


def test_a_shape_of_one_is_told_and_its_number_compared() -> None:
    twin = prepared(PASSES).twin
    name = "0000/loss/context0"
    doubled = {key: tensor * 2 for key, tensor in twin.tensors.items() if key.startswith("0000/loss/")}
    found = explain({**twin.tensors, **doubled, name: doubled[name].reshape(1)}, twin)
    assert found.lines[0] == f"{name}: yours has shape (1,), the reference's (): one number, but with a dimension"
    assert "exactly 2 * the reference's" in str(found)
