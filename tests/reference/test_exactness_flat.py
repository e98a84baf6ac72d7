"""An exact case has one result however a program groups the factors of its sums, even as one sum of all products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import batch_parameter_server, parameter_server
from reference.exact.exactness import ExactnessProof, NotExact
from reference.verify.verify import prove
from tests.properties import flat
from tests.properties.cases import EXACT
from tests.support.twins import unproven

float64 = torch.float64
# Each operation of its twin is exact from the numbers that it is given.
GROUPED = batch_parameter_server.Case.exact(
    seed=680499, trainers=1, batch_size=2, image_w=4, image_h=4, num_classes=2, lr=2.0**-8, momentum=2.0**-5, steps=4
)
FORMS: dict[str, Callable[..., list[str]]] = {
    "parameter_server": flat.server,
    "batch_parameter_server": flat.batch_server,
    "pipeline": flat.halves,
    "dist_autograd": flat.contexts,
}
# The order of events that each form takes.
ORDERED: dict[str, dict[str, Any]] = {
    "parameter_server": {"staleness": 0},
    "batch_parameter_server": {"accumulation": "rank"},
}


def tensor(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers, dtype=float64)


def test_a_case_whose_loss_rounds_as_one_sum_is_refused() -> None:
    """Its bits depend on the program."""
    with pytest.raises(NotExact, match=r"^batch_parameter_server: step 3: \w+ of .* needs \d\d bits, and 53 are exact"):
        prove(GROUPED)
    trace = unproven(GROUPED)
    assert {name for seed in range(9) for name in flat.batch_server(GROUPED, trace, seed)} == {"0003/loss/trainer1"}


@pytest.mark.parametrize("name", FORMS)
def test_generated_exact_cases_have_one_result_as_flat_sums(name: str) -> None:
    """They are accepted, and a program that adds products in an order drawn from ``seed`` has the twin's numbers."""

    @settings(deadline=None, max_examples=20)
    @given(EXACT[name], st.integers(0, 2**32))
    def holds(case: Any, seed: int) -> None:
        prove(case)
        case = replace(case, **ORDERED.get(name, {}))
        trace = unproven(case, parameter_server.turns(case) if name == "parameter_server" else None)
        assert FORMS[name](case, trace, seed) == []

    holds()


# One operation after another


def cancelling(size: int = 40) -> torch.Tensor:
    """Outputs (1, 4) of 1, whose terms add up to 2 ** (size + 1) + 1."""
    row = torch.tensor([[2.0**size, 1.0, -(2.0**size)]], dtype=float64)
    return row @ torch.ones(3, 4, dtype=float64)


def test_a_loss_is_the_sum_of_the_products_of_all_factors() -> None:
    """Each output times its weight has 53 bits; their sum has 55, whatever the outputs come to."""
    weights = tensor(1.0, 1.0, 1.0, 2.0**-11)
    with ExactnessProof():
        weighted = cancelling() * weights
        with pytest.raises(NotExact, match=r"^step 0: sum of \(1, 4\) needs 55 bits, and 53 are exact; "):
            weighted.sum()


def test_a_gradient_through_layers_is_one_sum() -> None:
    """The first layer passes 1 back; its terms come to 43 bits in the second, and those of the weights to 11 more."""
    weights = torch.tensor([[1.0], [1.0], [1.0], [2.0**-11]], dtype=float64)
    with ExactnessProof(), pytest.raises(NotExact, match=r"^step 0: mm of \(1, 4\) and \(4, 1\) needs 54 bits"):
        cancelling() @ weights


@pytest.mark.parametrize("power", [1, 2])
def test_a_power_of_a_sum_is_the_product_of_its_terms(power: int) -> None:
    with ExactnessProof():
        raised = cancelling(40 // power) ** power
        with pytest.raises(NotExact, match=r"^step 0: add of .* needs 5\d bits, and 53 are exact; "):
            raised + 2.0**-12


def test_a_sum_goes_on_through_a_relu() -> None:
    """It goes on as the sum of its terms, each times 1 where the unit is open and 0 where it is not."""
    with ExactnessProof(), pytest.raises(NotExact, match="and 53 are exact"):
        cancelling().relu() + 2.0**-30


def test_the_gradient_of_a_relu_goes_on() -> None:
    inputs = torch.zeros(1, 4, dtype=float64).requires_grad_()
    with ExactnessProof():
        outputs = (inputs + 1).relu()
        gradient = cancelling()
        (through,) = torch.autograd.grad(outputs, inputs, gradient)
        with pytest.raises(NotExact, match="and 53 are exact"):
            through + 2.0**-30


def test_a_choice_between_sums_goes_on() -> None:
    with ExactnessProof(), pytest.raises(NotExact, match="and 53 are exact"):
        torch.where(torch.tensor([True, False, True, False]), cancelling(), 0.0) + 2.0**-30


def test_what_chooses_between_sums_adds_no_digits() -> None:
    """Its 1 is no number of the sum, whose numbers are whole multiples of 2 ** 30."""
    with ExactnessProof():
        chosen = torch.where(torch.tensor([True, False, True, False]), cancelling() * 2.0**30, 0.0)
        assert (chosen + 2.0**30).tolist() == [[2.0**31, 2.0**30, 2.0**31, 2.0**30]]


@pytest.mark.parametrize("how", [{"fused": True}, {"foreach": True}, {"foreach": False}], ids=str)
def test_momentum_is_the_sum_of_all_gradients(how: dict[str, bool]) -> None:
    """Momentum is in no trace, so a program may add it up anew from all gradients, and has their sizes."""
    weight = tensor(0.0).requires_grad_()
    optimizer = torch.optim.SGD([weight], lr=1.0, momentum=1.0, **how)
    with ExactnessProof():
        for gradient in (2.0**51, -(2.0**51)):
            weight.grad = tensor(gradient)
            optimizer.step()
        weight.detach().zero_()
        weight.grad = tensor(0.5)
        with pytest.raises(NotExact, match="needs 54 bits"):
            optimizer.step()


@pytest.mark.parametrize("how", [{"fused": True}, {"foreach": True}, {"foreach": False}], ids=str)
def test_a_parameter_is_a_number_for_who_reads_it(how: dict[str, bool]) -> None:
    """Every correct program has it as one: the trace does."""
    weight = tensor(2.0**50 + 1).requires_grad_()
    optimizer = torch.optim.SGD([weight], lr=1.0, **how)
    with ExactnessProof():
        weight.grad = tensor(2.0**50)
        optimizer.step()
        assert (weight.detach() + 2.0**-20).item() == 1 + 2.0**-20


def test_a_part_that_is_a_sum_makes_the_whole_one() -> None:
    whole = torch.zeros(8, dtype=float64)
    whole[7] = 2.0**-30
    with ExactnessProof():
        whole[:4] += cancelling()[0]
        with pytest.raises(NotExact, match="needs 72 bits"):
            whole[1:] + 0.0
