"""Exact cases are exact: each operation is proved, and compared with other orders of sums and rational numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import batch_parameter_server, load, parameter_server
from reference.exact import exactness
from reference.exact.exactness import ExactnessProof, NotExact
from reference.exact.operator_rules import Grid, grid_of_values
from reference.trace import Trace
from reference.verify.verify import CASES, cases, judge, played, prove
from tests.support.reordering import Unrounded
from tests.support.twins import unproven

unhurried = settings(deadline=None, max_examples=60)
EXACT = [case for case in cases(list(CASES)) if case.is_exact]
NAMES = [case.tutorial() for case in EXACT]
SMALL = batch_parameter_server.Case.exact(image_w=4, image_h=4, batch_size=2, num_classes=3)
TOO_LONG = replace(SMALL, steps=6)
float64 = torch.float64


# Whole cases


@pytest.mark.parametrize("case", EXACT, ids=NAMES)
def test_verifys_exact_cases_are_proved_and_have_one_result_in_every_order(case: Any) -> None:
    assert case.steps > 1
    prove(case)
    replay = parameter_server.turns(case) if case.tutorial() == "parameter_server" else None
    wanted = unproven(case, replay).tensors
    with Unrounded(1):
        found = unproven(case, replay).tensors
    for name, tensor in wanted.items():
        assert torch.equal(found[name], tensor), name


NATURAL, PROVED = parameter_server.Case(steps=2), parameter_server.Case.exact(steps=2)


@pytest.mark.parametrize(("gpus", "case"), [(0, NATURAL), (1, PROVED)], ids=["none", "exact"])
def test_the_twin_of_a_run_on_a_gpu_needs_none(gpus: int, case: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes the one that is there only for the natural case, whose bits are those of the device."""
    run = Trace(replace(case, device="cuda"), parameter_server.train_locally(case).tensors)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    assert judge(run, parameter_server.train_locally)[1] == "equal"


def test_a_case_that_is_refused_depends_on_the_order() -> None:
    with pytest.raises(NotExact):
        prove(TOO_LONG)
    with Unrounded(1):
        found = unproven(TOO_LONG).tensors
    assert any(not torch.equal(found[name], tensor) for name, tensor in unproven(TOO_LONG).tensors.items())


@unhurried
@given(st.randoms(use_true_random=False), st.integers(0, 99), st.sampled_from((0, 1)))
def test_no_order_of_workers_has_a_larger_loss_than_is_proved(order: Any, seed: int, staleness: int) -> None:
    case = parameter_server.Case.exact(workers=3, steps=2, seed=seed, staleness=staleness)
    names = [worker for worker in range(case.workers) for _ in range(2 * case.steps)]
    order.shuffle(names)
    events = [(names[:place].count(worker) % 2, worker) for place, worker in enumerate(names)]
    trace = unproven(case, Trace(case, {"order/events": torch.tensor(events)}))
    proved = exactness.most_in_any_order(
        unproven(case, parameter_server.turns(case)),
        case.lr,
        [b for name in parameter_server.worker_names(case) for b in parameter_server.batches(case, name)],
    )
    for name, tensor in trace.tensors.items():
        if "/loss/" in name:
            assert abs(tensor.item()) <= proved.most
            assert tensor.item() % 2.0**proved.unit == 0


def test_an_order_that_only_the_run_knows_is_asked_for() -> None:
    """With workers in turn the weights never leave 53 bits; if one worker runs ahead of the others they might."""
    large = Grid(0, 2.0**53)
    assert large.bits == 54
    case = parameter_server.Case.exact(workers=3, steps=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exactness, "most_in_any_order", lambda *_: large)
        told = r"^parameter_server: the loss of some order of the workers needs 54 bits, and 53 are exact; wanted "
        with pytest.raises(NotExact, match=told):
            prove(case)


def test_arrival_order_is_proved_before_the_run() -> None:
    prove(replace(SMALL, accumulation="arrival"))
    with pytest.raises(NotExact):
        prove(replace(TOO_LONG, accumulation="arrival"))


def test_a_loss_that_rounds_is_refused() -> None:
    """Everything that decides the parameters is exact here, and so is each term of the loss."""
    with pytest.raises(NotExact, match=r"^dist_autograd: step 10: sum of \(3, 3\) needs 55 bits, and 53 are exact; "):
        prove(load("dist_autograd").Case.exact(lr=0.5, steps=20))


def test_verify_refuses_before_anything_runs() -> None:
    row = played(TOO_LONG)()
    assert row.verdict == "refused"
    assert row.seconds == 0.0
    assert row.difference.startswith("batch_parameter_server: step 4: sum of ")


def test_a_run_of_a_case_that_is_none_is_neither_equal_nor_wrong() -> None:
    difference, verdict = judge(unproven(TOO_LONG), batch_parameter_server.train_locally)
    assert verdict == "refused"
    assert difference.startswith("step 4: sum of ")


# One operation


def tensor(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers, dtype=float64)


def binary(digits: int, shift: int) -> st.SearchStrategy[float]:
    """Integers of some digits, times a power of two."""
    return st.builds(lambda n, e: n * 2.0**e, st.integers(-(2**digits), 2**digits), st.integers(-shift, shift))


def unit_of(numbers: list[Fraction]) -> Fraction:
    """The largest power of two that divides all."""
    found = [n for n in numbers if n]
    return min((Fraction((n.numerator & -n.numerator), n.denominator) for n in found), default=Fraction(1))


@unhurried
@given(st.lists(binary(53, 40), min_size=1, max_size=9))
def test_a_grid_has_the_largest_unit_and_the_largest_size(numbers: list[float]) -> None:
    grid, exact = grid_of_values(np.array(numbers)), [Fraction(n) for n in numbers]
    if any(exact):
        assert Fraction(2) ** grid.unit == unit_of(exact)
    assert grid.most == max(map(abs, numbers))


@unhurried
@given(st.integers(1, 6), st.data())
def test_a_product_is_accepted_exactly_if_its_sums_fit(width: int, data: st.DataObject) -> None:
    """Compare with fractions: an accepted sum is the same in every order, a refused one has sums of 53 bits or more."""
    numbers = st.lists(binary(16, data.draw(st.sampled_from((2, 9, 20)))), min_size=width, max_size=width)
    left, right = data.draw(numbers), data.draw(numbers)
    terms = [Fraction(a) * Fraction(b) for a, b in zip(left, right, strict=True)]
    units = unit_of([Fraction(a) for a in left]) * unit_of([Fraction(b) for b in right])
    size = sum(map(abs, terms)) / units
    try:
        with ExactnessProof():
            found = (tensor(*left).unsqueeze(0) @ tensor(*right).unsqueeze(1)).item()
    except NotExact:
        assert size * (1 + Fraction(1, 2**19)) >= 2**53
        return
    assert size < 2**53
    assert Fraction(found) == sum(terms)
    forward, backward = 0.0, 0.0
    for a, b in zip(left, right, strict=True):
        forward += a * b
    for a, b in zip(reversed(left), reversed(right), strict=True):
        backward += a * b
    assert forward == backward == found


def test_a_row_of_small_digits_counts_wherever_it_is() -> None:
    matrix = torch.ones(3, 2, dtype=float64) * 2.0**30
    matrix[2, 1] = 2.0**-30
    with ExactnessProof(), pytest.raises(NotExact, match=r"^step 0: mm of"):
        _ = matrix @ torch.ones(2, 1, dtype=float64)


def test_53_bits_are_exact_and_54_are_not() -> None:
    with ExactnessProof():
        assert (tensor(2.0**52) + tensor(2.0**52 - 2)).item() == 2.0**53 - 2
        _ = tensor(2.0**52) + tensor(2.0**51 + 1)
        with pytest.raises(NotExact, match="needs 54 bits, and 53 are exact"):
            _ = tensor(2.0**53) + tensor(1.0)


def test_terms_of_a_product_that_cancel_count_with_their_sizes() -> None:
    row = torch.tensor([[2.0**53, 1.0, -(2.0**53)]], dtype=torch.float64)
    with ExactnessProof(), pytest.raises(NotExact, match="and 53 are exact"):
        _ = row @ torch.ones(3, 1, dtype=torch.float64)


def test_a_sum_along_an_axis_has_the_terms_of_that_axis_alone() -> None:
    numbers = torch.full((2, 2), 2.0**51 + 1, dtype=float64)
    with ExactnessProof():
        assert numbers.sum(0).tolist() == [2.0**52 + 2] * 2
        with pytest.raises(NotExact, match=r"^step 0: sum of \(2, 2\) needs 54 bits"):
            numbers.sum()


def test_a_sum_that_goes_on_is_one_sum() -> None:
    """Terms that cancel in this order make large sums in another."""
    large, small = 2.0**53, 1.0
    with ExactnessProof(), pytest.raises(NotExact, match="needs 55 bits"):
        _ = (tensor(large) - tensor(large)).view(1, 1).t().clone() + tensor(small)
    with ExactnessProof():
        assert (tensor(0.0) + tensor(small)).item() == small


def test_a_sum_goes_on_where_a_part_of_it_is_overwritten() -> None:
    large = tensor(2.0**53, 2.0**53)
    with ExactnessProof():
        cancelled = large - large
        cancelled[0].zero_()
        with pytest.raises(NotExact, match="needs 55 bits"):
            _ = cancelled + tensor(1.0, 1.0)


def test_float32_has_24_bits() -> None:
    large, small = torch.tensor([2.0**24]), torch.tensor([1.0])
    with ExactnessProof(), pytest.raises(NotExact, match="needs 25 bits, and 24 are exact"):
        _ = large + small
    with ExactnessProof(), pytest.raises(NotExact, match="needs 25 bits, and 24 are exact"):
        tensor(2.0**24 + 1).float()


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (torch.tanh, "no proof for tanh"),
        (torch.mean, "no proof for mean"),
        (lambda x: torch.softmax(x, 0), "no proof for _softmax"),
        (lambda x: x / 3, "a division by 3.0, no power of two"),
        (lambda x: x / x, "a division by a tensor, no power of two"),
        (lambda x: x**3, "no proof for the power of 3"),
        (lambda x: torch.arange(3).rsqrt(), "no proof for rsqrt"),
        (lambda x: torch.nn.functional.batch_norm(x.view(2, 1), None, None, training=True), "no proof for "),
    ],
)
def test_what_has_no_proof_is_refused_by_name(function: Callable[..., Any], told: str) -> None:
    numbers = tensor(1.0, 2.0)
    with ExactnessProof(), pytest.raises(NotExact) as caught:
        function(numbers)
    assert str(caught.value).startswith(f"step 0: {told}")


@pytest.mark.parametrize("how", [{"fused": True}, {"foreach": True}, {"foreach": False}], ids=str)
@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_each_form_of_the_optimizer_is_proved(how: dict[str, bool], momentum: float) -> None:
    """Three steps whose sums fit, and one that comes to 54 bits by the learning rate alone."""
    weight = tensor(8.0, 3.0).requires_grad_()
    optimizer = torch.optim.SGD([weight], lr=0.5, momentum=momentum, **how)
    with ExactnessProof():
        for _ in range(3):
            weight.grad = tensor(1.0, -2.0)
            optimizer.step()
    optimizer.param_groups[0]["lr"] = 2.0**-60
    with ExactnessProof(), pytest.raises(NotExact, match=r" needs \d\d bits, and 53 are exact"):
        optimizer.step()


def test_bags_count_how_often_a_row_comes() -> None:
    weight = tensor(2.0**51, 1.0).view(2, 1).requires_grad_()
    bags = torch.tensor([[0, 0, 0, 0]])
    with ExactnessProof():
        torch.nn.functional.embedding_bag(bags[:, :1], weight, mode="sum")
        torch.nn.functional.embedding_bag(bags[:0], tensor(2.0**53, 1.0).view(2, 1), mode="sum")
    with ExactnessProof(), pytest.raises(NotExact, match=r"^step 0: _embedding_bag of"):
        torch.nn.functional.embedding_bag(bags, weight, mode="sum")


@pytest.mark.parametrize("how", [{"mode": "mean"}, {"mode": "sum", "per_sample_weights": tensor(3.0).view(1, 1)}])
def test_bags_that_are_no_plain_sums_are_refused(how: dict[str, Any]) -> None:
    with ExactnessProof(), pytest.raises(NotExact, match="no proof for bags other than plain sums"):
        torch.nn.functional.embedding_bag(torch.tensor([[0]]), tensor(2.0).view(1, 1), **how)
