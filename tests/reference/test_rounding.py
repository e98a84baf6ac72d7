"""Natural cases: rounding passes, errors do not; and the verdicts of `verify`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from reference import TUTORIALS, load, parameter_server, reinforce, rpc_basics, rref_dataflow
from reference.conform.suite import CATALOGUE, Entry
from reference.conform.twin import prepared
from reference.exact.exactness import ExactnessProof
from reference.rounding.bound import Undecided
from reference.rounding.reordering import REORDERED, reordered
from reference.rpc_basics import Case
from reference.trace import Recorder, Trace, TraceError
from reference.trace.trace import compare
from reference.training.placement import one_thread
from reference.verify import judge
from reference.verify.verify import KnownErrors
from tests.support.runs import rounding_bound

CASE = Case()
EPS32, EPS64 = 2.0**-23, 2.0**-52
INF = float("inf")


def trace(values: Any, dtype: torch.dtype = torch.float32, name: str = "x") -> Trace:
    return Trace(CASE, {name: torch.as_tensor(values, dtype=dtype)})


def bound(run: Any, twins: list[Any], exact: Any, dtype: torch.dtype = torch.float32) -> tuple[float, bool]:
    """(ratio, verdict) of a single tensor."""
    result = rounding_bound(trace(run, dtype), [trace(twin, dtype) for twin in twins], trace(exact, torch.float64))
    assert list(result.ratios) == ["x"]
    assert result.worst == ("x", result.ratios["x"])
    return result.ratios["x"], result.holds


def test_one_wrong_element_that_a_2_norm_does_not_see_is_found() -> None:
    """One element of a million is 17 times as far off as the farthest of all twins' elements."""
    exact, rest = torch.zeros(10**6), torch.rand(10**6, generator=torch.Generator().manual_seed(0))
    run = rest.clone()
    assert bound(run, [rest], exact)[1] is True
    run[123456] = 17.0
    assert run.norm() < 1.001 * rest.norm()
    ratio, holds = bound(run, [rest], exact)
    assert holds is False
    assert ratio == pytest.approx(17, rel=0.01)


@pytest.mark.parametrize(("place", "dtype"), [(0, torch.float32), (2**21, torch.float64), (-1, torch.float32)])
def test_one_wrong_element_is_found_where_all_twins_are_exact(place: int, dtype: torch.dtype) -> None:
    """Of three million zeros one is the smallest number; of as many ones, one is two roundings off."""
    eps = torch.finfo(dtype).eps
    for right, wrong, ratio in ((0.0, torch.finfo(dtype).smallest_normal * eps, float("inf")), (1.0, 1 + 2 * eps, 2.0)):
        exact = torch.full((3_000_000,), right, dtype=dtype)
        run = exact.clone()
        run[place] = wrong
        assert bound(run, [exact], exact, dtype) == (ratio, False)


@pytest.mark.parametrize(
    ("run", "twins", "exact", "ratio"),
    [
        # The error over the twin's error, here of 1, or of all twins together.
        (0.0, [1.0], 0.0, 0.0),
        (1.0, [1.0], 0.0, 1.0),
        (-1.0, [1.0], 0.0, 1.0),
        (1.5, [1.0], 0.0, 1.5),
        (1.5, [1.0, -1.0], 0.0, 0.75),
        (3.0, [1.0, 2.0, 0.0], 0.0, 1.0),
        # The twin is exact: one rounding of the norm is allowed for each, and of the largest element.
        ([2.0, 0.0], [[2.0, 0.0]], [2.0, 0.0], 0.0),
        ([1.0 + EPS32, 0.0], [[1.0, 0.0]], [1.0, 0.0], 1.0),
        ([1.0 + 2 * EPS32, 0.0], [[1.0, 0.0]], [1.0, 0.0], 2.0),
        ([1.0 + 2 * EPS32, 0.0], [[1.0, 0.0]] * 2, [1.0, 0.0], 1.0),
        ([1.0, 2 * EPS32], [[1.0, 0.0]], [1.0, 0.0], 2.0),
        # The twin is exact, and so must the run be.
        (0.0, [0.0], 0.0, 0.0),
        (1e-30, [0.0], 0.0, INF),
        ([0.0, 1e-45], [[0.0, 0.0]], [0.0, 0.0], INF),
        # Of what overflows nothing is within the bound: the run, run and twin, the float64 twin, a twin.
        (INF, [1.0], 1.0, INF),
        (INF, [INF], 1e39, INF),
        (1.0, [1.0], INF, INF),
        (1.0 + EPS32, [1.0, INF], 1.0, INF),
    ],
)
def test_ratios_are_those_computed_by_hand(run: Any, twins: list[Any], exact: Any, ratio: Any) -> None:
    got, holds = bound(run, twins, exact)
    assert got == ratio
    assert holds is (got <= 1)


@pytest.mark.parametrize("unit", [1.0, 2.0**-900, 2.0**900])
@pytest.mark.parametrize(
    ("run", "twin", "exact", "ratio"),
    [
        # In the 2-norm, of which the twin's is 5, and by the largest element, of which the twin's is 4.
        ([3.0, 3.0, 3.0, 4.0], [3.0, 4.0, 0.0, 0.0], [0.0] * 4, pytest.approx(43**0.5 / 5)),
        ([0.0, 0.0, 4.5, 0.0], [3.0, 4.0, 0.0, 0.0], [0.0] * 4, 1.125),
        ([1.0, 1.0, 1.0, 1.0 + 2 * EPS64], [1.0] * 4, [1.0] * 4, 2.0),
        ([3.0, 4.0, 0.0, 0.0], [-3.0, 4.0, 0.0, 0.0], [0.0] * 4, 1.0),
    ],
)
def test_a_ratio_does_not_depend_on_the_unit(
    run: list[float], twin: list[float], exact: list[float], ratio: Any, unit: float
) -> None:
    """The squares of such large or small numbers are infinite or 0 in float64."""
    scaled = [unit * torch.tensor(each, dtype=torch.float64) for each in (run, twin, exact)]
    assert bound(scaled[0], [scaled[1]], scaled[2], torch.float64)[0] == ratio


def test_every_tensor_counts() -> None:
    """The worst one is named; integers have no ratio; floats without elements are right."""

    def make(dtype: torch.dtype, good: float, bad: float) -> Trace:
        floats = {"a": [good], "b": [bad], "c": [1.0], "d": []}
        tensors = {name: torch.tensor(values, dtype=dtype) for name, values in floats.items()}
        return Trace(CASE, {**tensors, "steps": torch.tensor([3])})

    twin, exact = make(torch.float32, 1.0, 1.0), make(torch.float64, 0.0, 0.0)
    result = rounding_bound(make(torch.float32, 0.5, 2.0), [twin], exact)
    assert result.ratios == {"a": 0.5, "b": 2.0, "c": 0.0, "d": 0.0}
    assert result.worst == ("b", 2.0)
    assert result.holds is False
    assert str(result).startswith("the worst error is 2.00 of its bound, in b")
    assert rounding_bound(make(torch.float32, 0.5, 1.0), [twin], exact).holds is True


def test_tensors_that_may_be_rounding_alone_are_counted() -> None:
    """A twin that is as far off as the tensor is large tells nothing from nothing."""
    result = rounding_bound(trace([0.0]), [trace([1.0]), trace([2.5])], trace([1.0], torch.float64))
    assert result.holds is True
    assert result.blind == ("x",)
    assert "0.67 of its bound, in x; there is no bound for 1 tensors, which rounding may change by" in str(result)
    assert result.verdict == "unknown"
    for twin, blind in (([0.0, 0.0], ("x",)), ([3.0, 8.5], ())):  # 5 and 4.5 off, of 5
        assert rounding_bound(trace([3.0, 4.0]), [trace(twin)], trace([3.0, 4.0], torch.float64)).blind == blind


# Errors that the bound must notice


def result(**values: float) -> Callable[[float], Trace]:
    """Make float64 traces of these values, or with an error their float32 twins, each value off by that much."""

    def make(error: float) -> Trace:
        dtype = torch.float64 if error == 0 else torch.float32
        named = {name.replace("_", "/"): torch.tensor([value + error], dtype=dtype) for name, value in values.items()}
        return Trace(CASE, named)

    return make


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ({"0001_parameter_x": 1.0}, "unknown"),
        ({"0001_parameter_x": 0.0}, "unknown"),
        ({"0001_parameter_x": 1.2}, "within bound"),
        ({"0001_parameter_x": 9.0, "0001_buffer_x": 1.0}, "unknown"),
        ({"0009_parameter_x": 9.0, "0010_parameter_x": 1.0}, "unknown"),
        # A bias that was trained towards 0 has the scale that it had; another tensor's start is none of its.
        ({"initial_x": 9.0, "0001_parameter_x": 0.1}, "within bound"),
        ({"initial_y": 9.0, "0001_parameter_x": 0.1}, "unknown"),
        # An error before the last parameters has its effect on them; and a converged loss may be rounding alone.
        ({"0009_parameter_x": 1.0, "0010_parameter_x": 9.0}, "within bound"),
        ({"0001_gradient_x": 0.001, "0001_parameter_x": 9.0}, "within bound"),
        ({"0001_loss_x": 0.001, "0001_parameter_x": 9.0}, "within bound"),
        # Without any parameters everything is the result.
        ({"x": 1.0}, "unknown"),
        ({"x": 9.0}, "within bound"),
    ],
)
def test_a_result_that_may_be_rounding_alone_is_not_judged(values: dict[str, float], verdict: str) -> None:
    """Twins that are 0.4 and 0.7 off allow 1.1."""
    make = result(**values)
    assert rounding_bound(make(0.1), [make(0.4), make(-0.7)], make(0)).verdict == verdict


def test_what_cannot_be_judged_is_named() -> None:
    make = result(**{"0001_parameter_x": 9.0, "0001_parameter_y": 1.0, "0001_parameter_z": 0.1})
    got = rounding_bound(make(0.1), [make(0.4), make(-0.7)], make(0))
    assert [*got.hidden.unjudged] == ["0001/parameter/y", "0001/parameter/z"]
    wanted = "; 2 tensors of the result cannot be judged: rounding may change 0001/parameter/z by 1.1e+03 %"
    assert str(got).endswith(wanted)


@pytest.mark.parametrize(("value", "rough"), [(1.05, True), (1.15, False)])
def test_what_is_checked_only_roughly_is_named(value: float, rough: bool) -> None:
    """The run is within its bound, where one element may be off by more or less than a hundredth of the scale."""
    make = result(**{"0001_parameter_x": 9.0, "0001_parameter_y": value})
    got = rounding_bound(make(0.001), [make(0.004), make(-0.007)], make(0))
    assert got.verdict == "within bound"
    assert [*got.hidden.rough] == (["0001/parameter/y"] if rough else [])
    wanted = "; 1 tensors of the result are checked only roughly: one element may be off in 0001/parameter/y by 1 %"
    assert str(got).endswith(wanted) is rough


def test_one_element_of_many_is_checked_roughly_where_rounding_hits_one_alone() -> None:
    """A tensor is judged by its 2-norm, which a thousand elements make large; of one the bound says nothing."""
    right, one = torch.ones(1000), torch.zeros(1000)
    one[3] = 2.0
    got = rounding_bound(trace(right + one / 2), [trace(right + one)], trace(right, torch.float64))
    assert got.verdict == "within bound"
    assert got.hidden.rough == {"x": 2.0}
    wanted = "; 1 tensors of the result are checked only roughly: one element may be off in x by 2e+02 %"
    assert str(got).endswith(wanted)


def test_what_is_outside_is_wrong_whatever_cannot_be_judged() -> None:
    make = result(**{"0001_parameter_x": 1.0, "0001_parameter_y": 9.0})
    got = rounding_bound(make(1.2), [make(0.4), make(-0.7)], make(0))
    assert got.verdict == "wrong"
    assert "judged" not in str(got)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.uint8], ids=str)
def test_integers_must_be_equal(dtype: torch.dtype) -> None:
    zero, one = trace([1, 0], dtype), trace([1, 1], dtype)
    assert rounding_bound(one, [one], one).holds is True
    with pytest.raises(TraceError, match=r"^x: integers differ from the float64 twin's$") as caught:
        rounding_bound(zero, [one], one)
    assert type(caught.value) is TraceError


def decided(action: int, value: float, dtype: torch.dtype = torch.float32) -> Trace:
    """An action, and as many values."""
    values = {"action": torch.ones(action, dtype=dtype), "x": torch.full((action,), value, dtype=dtype)}
    return Trace(CASE, {"count": torch.tensor(action), **values})


def test_a_decision_that_hangs_on_rounding_is_undecided() -> None:
    """If correct twins take both decisions, or all differ from float64's, the run's cannot be called wrong."""
    exact = decided(2, 1.0, torch.float64)
    for twins in ([decided(2, 1.0), decided(3, 1.0)], [decided(3, 1.0)]):
        with pytest.raises(Undecided, match=r"^count: integers differ from the float64 twin's; 1 correct twins take"):
            rounding_bound(decided(3, 1.0), twins, exact)
    with pytest.raises(Undecided, match=r"^all 2 twins take other decisions"):
        rounding_bound(decided(2, 1.0), [decided(3, 1.0)] * 2, exact)


def test_twins_that_decide_otherwise_do_not_widen_the_bound() -> None:
    exact = decided(2, 1.0, torch.float64)
    alone = rounding_bound(decided(2, 1.0 + EPS32), [decided(2, 1.0)], exact)
    assert rounding_bound(decided(2, 1.0 + EPS32), [decided(3, 9.0), decided(2, 1.0)], exact) == alone


def test_a_bound_needs_a_twin() -> None:
    with pytest.raises(TraceError, match=r"^got no twin to measure rounding with, wanted at least one$"):
        rounding_bound(trace([1.0]), [], trace([1.0], torch.float64))


ONE, NAN, DOUBLE = trace([1.0]), trace([float("nan")]), trace([1.0], torch.float64)
EMPTY = Trace(CASE, {})


@pytest.mark.parametrize(
    ("run", "twin", "exact", "message"),
    [
        (NAN, ONE, DOUBLE, "x: holds NaN"),
        (ONE, NAN, DOUBLE, "x: holds NaN"),
        (ONE, ONE, trace([float("nan")], torch.float64), "x: holds NaN"),
        (ONE, trace([1.0], name="y"), DOUBLE, "the first trace lacks 1 tensors, among them 'y'"),
        (ONE, EMPTY, DOUBLE, "the second trace lacks 1 tensors, among them 'x'"),
        (ONE, ONE, EMPTY, "the second trace lacks 1 tensors, among them 'x'"),
        (ONE, trace([1.0, 1.0]), DOUBLE, "x: shapes differ, (1,) and (2,)"),
        (ONE, ONE, trace([[1.0]], torch.float64), "x: shapes differ, (1,) and (1, 1)"),
        (ONE, DOUBLE, DOUBLE, "x: dtypes differ, torch.float32 and torch.float64"),
        # A float32 twin in the place of the float64 twin would hide the twin's own errors.
        (ONE, ONE, ONE, "x: the float64 twin has torch.float32, wanted torch.float64"),
    ],
)
def test_what_cannot_be_compared_is_refused(run: Trace, twin: Trace, exact: Trace, message: str) -> None:
    with pytest.raises(TraceError) as caught:
        rounding_bound(run, [twin], exact)
    assert str(caught.value) == message


# judge

SERVER = parameter_server.Case(steps=2)
EXACT = replace(SERVER, dtype="float64", arithmetic="exact", lr=0.125)
LAST = "0001/parameter/weight"


class Noting:
    """A twin that notes what it is given."""

    def __init__(self) -> None:
        self.given: list[tuple[parameter_server.Case, Trace]] = []

    def __call__(self, case: parameter_server.Case, replay: Trace) -> Trace:
        self.given.append((case, replay))
        return parameter_server.train_locally(case, replay)


def off(run: Trace, name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Trace:
    return Trace(run.case, {**run.tensors, name: change(run.tensors[name])})


def next_up(tensor: torch.Tensor) -> torch.Tensor:
    """The first element becomes its neighbour."""
    changed = tensor.clone()
    changed.view(-1)[0] = torch.nextafter(changed.view(-1)[0], torch.tensor(float("inf"), dtype=tensor.dtype))
    return changed


def test_one_ulp_is_wrong_where_bits_are_due() -> None:
    run = parameter_server.train_locally(EXACT)
    assert judge(run, parameter_server.train_locally) == ("bits equal in 13 tensors", "equal")
    wanted = f"1 ULPs in {LAST}, 1 of 13 tensors differ", "wrong"
    assert judge(off(run, LAST, next_up), parameter_server.train_locally) == wanted


def test_one_ulp_is_wrong_in_a_case_that_has_no_dtype_to_choose() -> None:
    """Its numbers are whole, so every form of a sum has the same bits."""
    run = rref_dataflow.train_locally(rref_dataflow.Case(side=128, steps=1))
    name = "0000/sum"
    difference, verdict = judge(off(run, name, next_up), rref_dataflow.train_locally)
    assert verdict == "wrong"
    assert difference.startswith(f"1 ULPs in {name}, ")


@pytest.mark.parametrize("case", [rpc_basics.Case(steps=2), rref_dataflow.Case(side=128)], ids=lambda c: c.tutorial())
def test_what_has_no_dtype_to_choose_rounds_nowhere(case: Any) -> None:
    with ExactnessProof():
        load(case.tutorial()).train_locally(case)


@pytest.mark.parametrize(("dtype", "error"), [("float32", 1000 * EPS32), ("float64", 1e-12)])
def test_a_larger_error_is_wrong_in_a_natural_case(dtype: str, error: float) -> None:
    case = replace(SERVER, dtype=dtype)
    run = off(parameter_server.train_locally(case), LAST, lambda weight: weight * (1 + error))
    difference, verdict = judge(run, parameter_server.train_locally)
    assert verdict == "wrong"
    assert difference.endswith(f" of its bound, in {LAST}")


@pytest.mark.parametrize("steps", [45, 100], ids=["infinity", "nan"])
def test_a_run_whose_twin_overflows_is_unknown(steps: int) -> None:
    """Its rate is too high, so it may be right: the twin says nothing of it."""
    case = parameter_server.Case(lr=10.0, steps=steps)
    run = reordered(parameter_server.train_locally, case, None, 1000)
    difference, verdict = judge(run, parameter_server.train_locally)
    assert verdict == "unknown"
    assert "the twin itself has NaN or infinity in " in difference


def test_what_the_twins_of_a_case_have_shown_holds_for_its_next_run() -> None:
    """For the next run only the twin itself is computed, and the judgement is the same as if all were."""
    healthy, known, twin = parameter_server.train_locally(SERVER), KnownErrors(), Noting()
    for change, computed in ((next_up, 2 + REORDERED), (lambda weight: weight * 1.01, 3 + REORDERED)):
        run = off(healthy, LAST, change)
        judged = judge(run, twin, known)
        assert len(twin.given) == computed
        assert judged == judge(run, parameter_server.train_locally)


def test_a_run_with_nan_or_another_dtype_is_refused_before_its_twins_are_measured() -> None:
    healthy, twin = parameter_server.train_locally(SERVER), Noting()
    assert judge(off(healthy, LAST, lambda weight: weight * float("nan")), twin, {}) == (f"{LAST}: holds NaN", "wrong")
    assert len(twin.given) == 1
    wanted = f"{LAST}: dtypes differ, torch.float64 and torch.float32", "wrong"
    assert judge(off(healthy, LAST, torch.Tensor.double), twin, {}) == wanted
    assert len(twin.given) == 2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_further_twins_are_computed_only_where_bits_differ(dtype: str) -> None:
    """Each gets the run's case, and the run to replay."""
    case, twin = replace(SERVER, dtype=dtype), Noting()
    run = parameter_server.train_locally(case)
    assert judge(run, twin) == ("bits equal in 13 tensors", "equal")
    assert [each for each, _ in twin.given] == [case]
    difference, verdict = judge(off(run, LAST, next_up), twin)
    assert verdict == "within bound"
    wanted = rf"1 ULPs in {LAST}, 1 of 13 tensors differ; the worst error is 0\.[012]\d of its bound, in \S+"
    assert re.fullmatch(wanted, difference), difference
    exact = [replace(case, dtype="float64")] if dtype == "float32" else []
    assert [each for each, _ in twin.given] == [case, case, *exact, *[case] * REORDERED]
    assert all(list(replay.tensors) == list(run.tensors) for _, replay in twin.given)


def test_a_run_of_another_order_is_judged_by_twins_of_that_order() -> None:
    case, known = replace(SERVER, workers=2), KnownErrors()
    for turn in ([[0, 0], [1, 0], [0, 1], [1, 1]], [[0, 0], [0, 1], [1, 0], [1, 1]]):
        order = torch.tensor(turn * case.steps)
        run = off(parameter_server.train_locally(case, Trace(case, {"order/events": order})), LAST, next_up)
        assert judge(run, parameter_server.train_locally, known) == judge(run, parameter_server.train_locally)
        assert len(known) == 1  # those of the last order: each has a whole trace


@pytest.mark.parametrize(("decision", "said"), [(0, "x: holds NaN"), (1, "; 1 correct twins take other decisions")])
def test_a_twin_with_nan_makes_no_run_wrong(decision: int, said: str) -> None:
    """Neither one with the float64 twin's decisions, nor one with those of another twin."""

    def trace(number: float, kind: torch.dtype, action: int) -> Trace:
        return Trace(CASE, {"a": torch.tensor([action]), "x": torch.tensor([number], dtype=kind)})

    twins = [trace(float("nan"), torch.float32, 0), trace(1.0, torch.float32, 1)]
    with pytest.raises(Undecided) as caught:
        rounding_bound(trace(1.0, torch.float32, decision), twins, trace(1.0, torch.float64, 0))
    assert said in str(caught.value)


CASES = {each.tutorial: each for each in CATALOGUE if each.core}


@pytest.mark.parametrize("entry", CASES.values(), ids=CASES)
def test_a_twin_replays_integers_alone(entry: Entry) -> None:
    """So runs with the same integers have the same twins, whatever else they computed."""
    healthy = prepared(entry.id)
    other = {n: torch.zeros_like(t) if t.is_floating_point() else t for n, t in healthy.twin.tensors.items()}
    twin = load(entry.tutorial).train_locally(healthy.case, Trace(healthy.case, other))
    assert compare(twin, healthy.twin).equal


def chaotic(case: parameter_server.Case, replay: Trace | None = None) -> Trace:
    """A twin that ends with what rounding alone has decided: sixty steps of the logistic map."""
    made = parameter_server.train_locally(case, replay)
    weight = made.tensors[LAST].sigmoid()
    for _ in range(60):
        weight = 4 * weight * (1 - weight)
    return Trace(case, {**made.tensors, LAST: weight})


def test_a_run_that_ends_with_what_rounding_has_decided_is_undecided() -> None:
    difference, verdict = judge(reordered(chaotic, SERVER, None, 1000), chaotic)
    assert verdict == "unknown"
    assert f"; 1 tensors of the result cannot be judged: rounding may change {LAST} by " in difference


def test_a_run_of_another_length_is_undecided_where_correct_twins_have_it_too() -> None:
    """Such as an episode that ends a step later, because rounding has decided an action."""

    def twin(case: parameter_server.Case, replay: Trace) -> Trace:
        made = parameter_server.train_locally(case, replay)
        same = torch.equal(made.tensors[LAST], plain.tensors[LAST]) or case.dtype == "float64"
        return Trace(case, {**made.tensors, "actions": torch.zeros(2 if same else 3, dtype=torch.int64)})

    plain = parameter_server.train_locally(SERVER)
    run = Trace(SERVER, {**plain.tensors, "actions": torch.zeros(3, dtype=torch.int64)})
    assert judge(run, twin)[1] == "unknown"


# Agents, whose decisions rounding may change


@pytest.mark.long
@pytest.mark.parametrize("record", ["every", "ends"])
def test_an_agent_that_acts_otherwise_than_all_twins_is_wrong_whatever_else_it_did(record: str) -> None:
    """It is wrong even if its episode has another length because of that."""
    case = reinforce.Case(steps=2, record=record)
    run = reinforce.train_locally(case)
    actions = run.tensors["0001/actions/observer1"]
    for given in (1 - actions, actions[:-1]):
        changed = Trace(case, {**run.tensors, "0001/actions/observer1": given})
        difference, verdict = judge(changed, reinforce.train_locally)
        assert verdict == "wrong"
        assert difference.split(":")[0] == "0001/actions/observer1"


# One thread


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("name", TUTORIALS)
def test_twins_compute_with_one_thread(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Roles do, too, because the number of threads decides the order of sums. The caller's number is restored."""
    module, seen, trace = load(name), [], Recorder.trace

    def watched(self: Recorder) -> Trace:
        seen.append(torch.get_num_threads())
        return trace(self)

    monkeypatch.setattr(Recorder, "trace", watched)
    small = {"model": "mlp"} if hasattr(module.Case(), "model") else {}
    module.train_locally(module.Case(steps=1, **small))
    assert seen == [1]
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_the_number_of_threads_comes_back_after_an_error() -> None:
    with pytest.raises(KeyError, match=r"^'x'$"), one_thread():  # noqa: PT012
        assert torch.get_num_threads() == 1
        raise KeyError("x")
    assert torch.get_num_threads() == 2
