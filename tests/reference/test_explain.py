"""The explainer: each mistake is named, and no other one is."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from reference import TUTORIALS, hybrid_ddp, load, pipeline
from reference.conform.inputs import replay_of
from reference.conform.suite import CATALOGUE
from reference.conform.twin import prepared
from reference.explain import explain as explain_module
from reference.explain.causes import causes
from reference.explain.explain import Explanation, explain
from reference.explain.other_twins import other_twins
from reference.explain.stages import Cause, Failed, Stages, follow
from reference.trace.names import in_causal_order, place_of, structure
from reference.trace.recorder import Recorder, following
from reference.trace.trace import Named
from reference.training.gradients import backward_in_order
from tests.support.numpy_programs import Mistake, answer, numpy_mistakes


def explained(mistake: Mistake, folder: Path) -> Explanation:
    twin = prepared(mistake.case).twin
    answered = answer(mistake.change, mistake.case, folder)
    return explain({**twin.tensors, **{name: torch.from_numpy(array) for name, array in answered.items()}}, twin)


@pytest.mark.long
@pytest.mark.parametrize("mistake", [*numpy_mistakes()], ids=lambda each: each.change.name)
def test_the_stage_of_a_mistake_is_named_and_its_cause(mistake: Mistake, tmp_path: Path) -> None:
    found = explained(mistake, tmp_path)
    assert found.place == mistake.place, found
    assert found.cause == (mistake.cause or "unexplained"), found


def test_of_a_wrong_update_nothing_is_said_of_an_agents_later_steps(tmp_path: Path) -> None:
    """The losses and gradients there are right at the answer's own parameters, of the states that it was given."""
    (mistake,) = (each for each in numpy_mistakes() if each.change.name == "adam-without-correction")
    told = str(explained(mistake, tmp_path))
    assert "updated parameters fail in every step that is compared." in told
    assert "In step 0001 actions are not the reference's." in told
    assert [kind for kind in ("log-probabilities", "losses", "gradients") if f"\n{kind} " in told] == []


def test_of_wrong_actions_no_later_stage_is_told(tmp_path: Path) -> None:
    (mistake,) = (each for each in numpy_mistakes() if each.change.name == "likeliest-action")
    _, place, first, *others = explained(mistake, tmp_path).lines
    assert place.startswith("The first stage that fails: actions of step 0000. 2 of 2 tensors")
    assert first.startswith("0000/actions/observer1: 1 of 9 numbers differ, by 1 at most; the first is")
    assert others == [
        "At your own numbers updated parameters are right in every step that is compared.",
        "In step 0000 actions are not the reference's. They lead to other states: after them only updates are "
        "compared.",
        "None of the mistakes that are tried gives these numbers.",
    ]


def test_a_case_of_more_steps_than_tensors_is_not_followed() -> None:
    """It comes from a file, and its twin might never end."""
    twin = prepared("dist_autograd-001").twin
    endless = replace(twin, case=replace(twin.case, steps=2**60))
    wrong = {**twin.tensors, (name := next(iter(twin.tensors))): twin.tensors[name] + 1}
    assert explain(wrong, endless).cause == "differs"


def test_no_stage_is_told_of_a_trace_that_lacks_the_steps_between() -> None:
    """A wrong update of the first step would be told as a loss of the second one."""
    case = replace(prepared("batch_parameter_server-001").twin.case, steps=2, record="ends")
    twin = load("batch_parameter_server").train_locally(case)
    name = next(name for name in twin.tensors if name.startswith("0001/loss/"))
    assert explain({**twin.tensors, name: twin.tensors[name] + 1}, twin).cause == "differs"


PASSES = "dist_autograd-001"
CORE = [entry.id for entry in CATALOGUE if entry.core]


@pytest.mark.parametrize("name", CORE)
def test_a_twin_that_follows_itself_computes_the_same(name: str) -> None:
    reference = prepared(name)
    found = follow(reference.twin, load(reference.entry.tutorial).train_locally).tensors
    assert found.keys() >= reference.twin.tensors.keys()
    assert all(torch.equal(tensor, found[key]) for key, tensor in reference.twin.tensors.items())


def damaged(tensor: torch.Tensor, chance: random.Random) -> torch.Tensor:
    """Change one number, or all of them, far more than rounding does."""
    found = tensor.clone()
    if not tensor.is_floating_point():
        return found + 1
    how = chance.choice(("one", "scaled", "shifted", "sign"))
    size = 1 + float(tensor.abs().max())
    if how == "one":
        found.view(-1)[chance.randrange(found.numel())] += size
        return found
    return found * 1.5 + 0.5 if how == "scaled" else found + 0.7 * size if how == "shifted" else -found - 1


@pytest.mark.long
@pytest.mark.parametrize("name", CORE)
def test_a_damaged_tensor_is_the_stage_that_fails(name: str) -> None:
    """Also where later stages are computed of it, and whatever the damage is: there is never a traceback."""
    reference, chance = prepared(name), random.Random(name)
    for _ in range(5):
        damage = chance.choice(sorted(reference.outputs))
        wrong = damaged(reference.twin.tensors[damage], chance)
        found = explain({**reference.twin.tensors, damage: wrong}, reference.twin)
        assert found.place == place_of(damage), found
        assert found.cause not in ("", "failed")


# A layer that another implementation computes otherwise, and its first output.
LAYERS: list[tuple[str, type[nn.Module], Callable[..., Any], str]] = [
    (
        "batch_parameter_server-003",
        nn.AdaptiveAvgPool2d,
        lambda layer, x: nn.functional.adaptive_max_pool2d(x, layer.output_size),
        "0000/output/trainer1/3",
    ),
    ("hybrid_ddp-002", nn.EmbeddingBag, lambda layer, x: layer.weight[x].mean(1), "0000/output/trainer1/sparse"),
    ("pipeline-002", nn.ReLU, lambda _, x: nn.functional.leaky_relu(x), "0000/output/micro-batch1/shard1.seq.2"),
    ("rnn-002", nn.Dropout, lambda _, x: x, "0000/output/trainer/emb_table.drop"),
]


@pytest.mark.parametrize(("name", "layer", "mistaken", "first"), LAYERS, ids=[each[0] for each in LAYERS])
def test_the_first_layer_that_is_wrong_is_named_where_outputs_are_recorded(
    monkeypatch: pytest.MonkeyPatch, name: str, layer: type[nn.Module], mistaken: Callable[..., Any], first: str
) -> None:
    reference = prepared(name)
    train = load(reference.entry.tutorial).train_locally
    with monkeypatch.context() as patch, following({}):
        patch.setattr(layer, "forward", mistaken)
        wrong = train(reference.case, replay_of(reference.case)).tensors
    found = explain(wrong, reference.twin)
    assert found.place == place_of(first), found
    assert any(line.startswith(f"{first}: ") for line in found.lines), found


def test_a_trainers_own_gradient_that_is_wrong_is_named_where_it_is_recorded() -> None:
    reference = prepared("batch_parameter_server-002")
    with following({}):
        wrong = load("batch_parameter_server").train_locally(reference.case).tensors
    part, mean = (wrong[f"0001/{each}3.weight"] for each in ("part/trainer2/", "gradient/"))
    mean += part / 3
    part *= 2
    assert explain(wrong, reference.twin).place == (1, "part")


@pytest.mark.parametrize(
    ("name", "of", "count", "told"),
    [
        ("batch_parameter_server-002", "trainer", 3, "(2 * trainer1 + 0 * trainer2 + 1 * trainer3) / 3"),
        ("pipeline-002", "micro-batch", 1, " + ".join(f"{n} * micro-batch{i}" for i, n in enumerate((2, 0, 1, 1), 1))),
    ],
    ids=["mean", "sum"],
)
def test_parts_are_told_as_those_of_a_mean_or_of_a_sum(name: str, of: str, count: int, told: str) -> None:
    """The first part counts twice, and the second is missing."""
    reference = prepared(name)
    with following({}):
        every = load(reference.entry.tutorial).train_locally(reference.case).tensors
    wrong = {**reference.twin.tensors}
    for each in (each for each in wrong if each.startswith("0000/gradient/")):
        one, two = (every[each.replace("gradient", f"part/{of}{number}")] for number in (1, 2))
        wrong[each] = wrong[each] + (one - two) / count
    assert explain(wrong, reference.twin).lines[-1] == f"It is, up to rounding: {told}"


def test_no_parts_are_told_where_others_have_the_same_sum() -> None:
    """The trainers' parts of this tensor are (0, 3), (0, 2), (0, 6) and (0, 4): 3, 2, 6 and 4 times each would fit."""
    twin, name = prepared("hybrid_ddp-001").twin, "0000/gradient/trainer1/0.bias"
    wrong = torch.tensor([0.0, 16.25], dtype=torch.float64)
    assert explain({**twin.tensors, name: wrong}, twin).cause == "unexplained"


@pytest.mark.parametrize("rate", [0.001, 0.01, 0.05, 0.1, 1.0])
def test_a_usual_rate_in_the_place_of_the_cases_is_told(rate: float) -> None:
    case = pipeline.Case(steps=1, batch_size=10, image_w=8, image_h=6, num_classes=5, model="mlp", lr=0.07)
    found = explain(pipeline.train_locally(replace(case, lr=rate)).tensors, pipeline.train_locally(case))
    assert found.lines[-1] == f"It is, up to rounding: the update with the rate {rate:g}"


def test_of_replicas_that_are_not_averaged_losses_and_updates_are_right() -> None:
    """Each trainer makes its steps with its own gradient, as in a program without allreduce."""
    twin = prepared("hybrid_ddp-002").twin
    case: Any = twin.case
    sparse = hybrid_ddp.sparse_part(case)
    replicas = {name: hybrid_ddp.dense_part(case) for name in hybrid_ddp.trainer_names(case)}
    parameters = hybrid_ddp.parameters_of(next(sparse.parameters()), replicas)
    optimizer, recorder = torch.optim.SGD(parameters.values(), lr=case.lr), Recorder(case, parameters)
    for step, batches in enumerate(zip(*(hybrid_ddp.get_next_batch(case, n) for n in replicas), strict=True)):
        optimizer.zero_grad()
        given = zip(replicas.items(), batches, strict=True)
        losses = {name: hybrid_ddp.loss_of(case, dense(sparse(x)), y) for (name, dense), (x, y) in given}
        backward_in_order([*losses.values()])
        parameters["ps/weight"].grad.div_(case.trainers)  # type: ignore[union-attr]
        optimizer.step()
        recorder.step(step, losses, parameters)
    told = explain(recorder.trace().tensors, twin).lines
    assert "At your own numbers losses, updated parameters are right in every step." in told
    assert "gradients fail in every step." in told


def test_no_momentum_is_told_of_in_a_case_without_any() -> None:
    twin = prepared("hybrid_ddp-002").twin
    never = {n: twin.tensors[re.sub(r"^\d+/parameter", "initial", n)] for n in twin.tensors}
    told = "It is, bit for bit: the parameters before the update: recorded too early, or never updated?"
    assert explain(never, twin).lines[-1] == told


def test_a_mistake_that_stops_is_told_to_hold_again() -> None:
    twin = prepared("batch_parameter_server-002").twin
    wrong = {n: t + 0.3 if n.startswith("0001/gradient/") else t for n, t in twin.tensors.items()}
    told = str(explain(wrong, twin))
    assert "gradients fail in step 0001 alone." in told
    assert "updated parameters hold before step 0001, and fail from there on." in told, "its momentum is of others"
    assert "At your own numbers losses are right in every step." in told


def test_of_many_steps_that_fail_five_are_named() -> None:
    twin = prepared("rnn-002").twin
    wrong = {n: t + 0.3 if "/gradient/" in n and place_of(n)[0] < 6 else t for n, t in twin.tensors.items()}
    assert "gradients fail in steps 0000, 0001, 0002, 0003, 0004, … alone." in str(explain(wrong, twin))


@pytest.mark.parametrize("name", [PASSES, "dist_autograd-002"])
def test_a_factor_that_rounds_is_a_cause(name: str) -> None:
    """In an exact case, too: a division may round where the reference does not."""
    twin = prepared(name).twin
    eps = torch.finfo(twin.tensors["initial/worker1"].dtype).eps
    near = {n: t * (2 + 2 * eps) if "/gradient/" in n else t for n, t in twin.tensors.items()}
    assert explain(near, twin).cause == "factor"


def test_a_cause_is_found_in_a_sum_whose_terms_cancel() -> None:
    """Another order of its terms changes a loss of 0.02 by thousands of its own roundings."""
    twin = prepared("reinforce-002").twin
    wrong = {name: -tensor if "/loss/" in name else tensor for name, tensor in twin.tensors.items()}
    loss = wrong["0000/loss/policy"]
    wrong["0000/loss/policy"] = loss * (1 + 1000 * torch.finfo(loss.dtype).eps)
    assert explain(wrong, twin).cause == "factor"


def test_no_tensor_before_the_stage_that_fails_is_named() -> None:
    """Another order of its terms changes the loss by thousands of its own roundings."""
    twin = prepared("reinforce-002").twin
    wrong = {name: 1.5 * tensor if "/gradient/" in name else tensor for name, tensor in twin.tensors.items()}
    loss = wrong["0000/loss/policy"]
    wrong["0000/loss/policy"] = loss * (1 + 1000 * torch.finfo(loss.dtype).eps)
    told = "8 of 44 tensors differ by more than rounding, the first is 0000/gradient/affine2.weight."
    assert explain(wrong, twin).lines[0] == told


def test_a_mistake_is_explained_where_actions_are_missing() -> None:
    twin = prepared("reinforce-002").twin
    wrong = {name: -t if "/loss/" in name else t for name, t in twin.tensors.items() if "actions" not in name}
    assert explain(wrong, twin).cause == "factor"


def test_a_whole_number_of_another_role_is_told() -> None:
    twin, name = prepared("rref_dataflow-001").twin, "0000/payloads/received/worker3"
    found = explain({**twin.tensors, "0000/payloads/received/worker0": twin.tensors[name]}, twin)
    assert found.lines[-1] == f"It is, bit for bit: that of {name}"


def test_numbers_of_another_step_are_told_where_a_name_has_two_parts() -> None:
    twin = prepared("rref_dataflow-001").twin
    found = explain({**twin.tensors, "0000/sum": twin.tensors["0001/sum"], "0001/sum": twin.tensors["0000/sum"]}, twin)
    assert found.lines[-1] == "It is, bit for bit: that of step 0001"


def test_a_wrong_parameter_is_not_told_as_that_of_a_later_step() -> None:
    """A gradient of 0 leaves it as it is."""
    twin = prepared("parameter_server-001").twin
    first, later = "0000/parameter/bias", "0001/gradient/bias"
    wrong = {**twin.tensors, first: twin.tensors[first] + 0.3, later: torch.zeros_like(twin.tensors[later])}
    found = explain(wrong, twin)
    assert (found.place, found.cause) == ((0, "parameter"), "unexplained"), found


def test_a_factor_of_losses_is_told_in_bfloat16() -> None:
    twin = prepared("batch_parameter_server-005").twin
    found = explain({name: 2 * t if "/loss/" in name else t for name, t in twin.tensors.items()}, twin)
    assert found.lines[-1] == "It is, bit for bit: the right numbers times 2"


def test_a_factor_that_is_a_number_of_the_case_may_be_another_one() -> None:
    """Two contexts do not hide that a square has lost its 2."""
    twin = prepared("dist_autograd-002").twin
    half = {name: tensor / 2 if "/gradient/" in name else tensor for name, tensor in twin.tensors.items()}
    told = "It is, bit for bit: the right numbers times 1/2, where 2 may be passes"
    assert explain(half, twin).lines[-1].startswith(told)


def late(tensors: Named) -> Named:
    """Record every gradient a step late."""
    earlier = {name: f"{place_of(name)[0] - 1:04d}{name[4:]}" if "/gradient/" in name else name for name in tensors}
    return {name: tensors.get(earlier[name], tensor) for name, tensor in tensors.items()}


def uncopied(tensors: Named) -> Named:
    """Record the same memory at each step: all steps hold the last parameters."""
    return {name: tensors[re.sub(r"^\d+/parameter", "0003/parameter", name)] for name in tensors}


def transposed(tensors: Named) -> Named:
    return {name: t.t() if "/gradient/" in name and t.dim() == 2 else t for name, t in tensors.items()}


def from_one(tensors: Named) -> Named:
    """Count steps from 1."""
    return {f"{int(name[:4]) + 1:04d}{name[4:]}" if name[:4].isdigit() else name: t for name, t in tensors.items()}


def spoilt(tensors: Named) -> Named:
    return {name: t * torch.nan if name.startswith("0002/gradient/") else t for name, t in tensors.items()}


# What a program may record, by the cause that is told.
CHANGES: dict[str, tuple[Callable[[Named], Named], str]] = {
    "other-step": (late, "It is, bit for bit: that of step 0000"),
    "no-copy": (uncopied, "It is, bit for bit: your own parameters of the last step: recorded without a copy"),
    "transposed": (transposed, "It is, bit for bit: transposed"),
    "structure": (from_one, "counted from 1?"),
    "nan": (spoilt, "NaN or infinity begins in 0002/gradient/3.weight: 40 of 40 numbers"),
}


@pytest.mark.parametrize("cause", CHANGES)
def test_a_recording_that_is_none_of_its_moment_is_told(cause: str) -> None:
    twin, (change, told) = prepared("batch_parameter_server-002").twin, CHANGES[cause]
    found = explain(change(twin.tensors), twin)
    assert found.cause == cause
    assert told in str(found)


def test_of_tensors_before_nan_those_that_differ_are_told() -> None:
    """They may be why it comes, as with a rate that is too high."""
    twin = prepared("batch_parameter_server-002").twin
    wrong = {name: 2 * t if name.startswith("0001/parameter/") else t for name, t in spoilt(twin.tensors).items()}
    told = "4 of 26 tensors before step 0002 differ by more than rounding, the first is 0001/parameter/1.bias."
    assert told in explain(wrong, twin).lines


def test_of_a_run_that_diverges_the_steps_before_are_explained() -> None:
    """The twins that follow diverge, too."""
    twin = prepared("batch_parameter_server-002").twin
    case: Any = twin.case
    found = explain(load("batch_parameter_server").train_locally(replace(case, lr=1e25)).tensors, twin)
    assert (found.cause, found.place) == ("nan", (0, "parameter")), found
    assert "tensors before step 0001 differ by more than rounding, the first is 0000/parameter/" in str(found)


def test_of_an_agent_that_diverges_no_explanation_fails() -> None:
    """With its last parameters before NaN the twin can choose no action."""
    twin = prepared("reinforce-002").twin
    factors = {name: 1e30 if place_of(name) == (0, "parameter") else 1.0 for name in twin.tensors}
    factors |= dict.fromkeys((name for name in factors if place_of(name) == (1, "parameter")), torch.nan)
    told = str(explain({name: factors[name] * tensor for name, tensor in twin.tensors.items()}, twin))
    assert "before it have none; 4 of them differ by more than rounding, the first is 0000/parameter/" in told
    assert "failed" not in told


@pytest.mark.long
def test_each_cause_has_a_broken_implementation_that_it_names() -> None:
    tried = set()
    for twin in (prepared(name).twin for name in CORE):
        train = load(twin.case.tutorial()).train_locally
        for place in {place_of(name) for name in twin.tensors}:
            first = min(name for name in twin.tensors if place_of(name) == place)
            failed = Failed(Stages(twin, follow(twin, train), (first,)), place, train)
            tried |= {each.id for some in (causes, other_twins) for each in some(failed)}
    assert len(tried) > 15
    assert tried <= {*(each.cause for each in numpy_mistakes()), *CHANGES}


def test_of_every_tutorial_with_batches_those_of_another_step_are_tried() -> None:
    """The exception trains with those of `batch_parameter_server`."""
    modules = [load(name) for name in TUTORIALS if hasattr(load(name).Case, "batch_size")]
    without = [each.__name__ for each in modules if not any(hasattr(each, n) for n in ("batches", "get_next_batch"))]
    assert without == ["reference.sharded_parameter_server"]


def refuse(*_: object) -> Any:
    raise ArithmeticError("planned")


def test_a_cause_that_cannot_be_tried_is_told_and_the_others_are(monkeypatch: pytest.MonkeyPatch) -> None:
    twin = prepared(PASSES).twin
    doubled = {name: 2 * tensor if "/gradient/" in name else tensor for name, tensor in twin.tensors.items()}
    monkeypatch.setattr(Failed, "at", refuse)  # what the causes of another step ask for
    found = explain(doubled, twin)
    assert found.cause == "factor"
    assert found.lines[-1] == "Not tried: that of step 0002 (ArithmeticError: planned)"


def each_refused(some: Callable[[Failed], Iterator[Cause]], failed: Failed) -> Iterator[Cause]:
    for each in some(failed):
        yield replace(each, candidate=refuse)


def test_no_cause_that_fails_hides_the_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    twin = prepared("batch_parameter_server-002").twin
    wrong = {each: t + 0.3 if "/gradient/" in each else t for each, t in twin.tensors.items()}
    for some in (causes, other_twins):
        monkeypatch.setattr(explain_module, some.__name__, partial(each_refused, some))
    found = explain(wrong, twin)
    assert found.place == (0, "gradient")
    assert found.cause == "unexplained"
    assert sum("ArithmeticError: planned" in line for line in found.lines) > 10


@pytest.mark.parametrize("broken", ["stages_of", "_located", "causes", "other_twins"])
def test_an_explanation_that_fails_says_so(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    twin = prepared(PASSES).twin
    wrong = {name: tensor + 0.3 if "/gradient/" in name else tensor for name, tensor in twin.tensors.items()}
    monkeypatch.setattr(explain_module, broken, refuse)
    found = explain(wrong, twin)
    assert found.cause == "failed"
    assert found.lines[-1] == "The explanation failed: ArithmeticError: planned"


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


def test_whole_numbers_are_never_rounded() -> None:
    twin = prepared("rref_dataflow-001").twin
    mine = {**twin.tensors, "0000/sum": torch.nextafter(twin.tensors["0000/sum"], torch.tensor(0.0))}
    assert explain(mine, twin).cause not in ("rounding", "drift")
    mine["0000/sum"][0, 0] += 5
    assert "16384 of 16384 numbers differ, by " in str(explain(mine, twin))


def test_missing_names_are_one_line_per_reason() -> None:
    wanted = [f"{step:04d}/{kind}/{name}" for step in range(3) for kind in ("gradient", "loss") for name in "ab"]
    assert structure(wanted, wanted) == []
    later = [f"{int(name[:4]) + 1:04d}{name[4:]}" for name in wanted]
    for each in (later, [*later, "0001/output/ps/fc"]):
        assert structure(each, wanted) == ["yours lacks step 0000 and has a step 0003: counted from 1?"]
    without = [name for name in wanted if "gradient" not in name]
    told = "yours lacks gradient/* in every step, 6 tensors, the first is 0000/gradient/b"
    assert structure(without, wanted) == [told]
    assert structure(wanted[1:], wanted) == ["yours lacks 0000/gradient/a"]
    assert structure([*wanted, "x"], wanted) == ["yours has, and the reference does not, x"]
    assert structure([*wanted, "²/x"], wanted) == ["yours has, and the reference does not, ²/x"]  # no step
    more = [*wanted, "0001/loss/c", "0002/loss/c"]
    told = "yours has, and the reference does not, 2 tensors loss/* of steps 0001, 0002, the first is 0001/loss/c"
    assert structure(more, wanted) == [told]
    start = ["initial/a", "initial/b"]
    assert structure(wanted, [*start, *wanted]) == ["yours lacks 2 tensors initial/*, the first is initial/a"]
    assert structure(wanted[2:], wanted) == [
        "yours lacks 2 tensors gradient/* of step 0000, the first is 0000/gradient/b"
    ]
    assert structure(["x", "0000/output/a"], ["x"]) == ["yours has, and the reference does not, 0000/output/a"]
    dots = [name.replace("/", ".") for name in wanted]
    told = "yours has, and the reference does not, 12 tensors without '/', the first is 0000.gradient.a"
    assert structure([*wanted, *dots], wanted) == [told]
    many = [f"{step:04d}/loss/a" for step in range(5)]
    told = "yours lacks 4 tensors loss/* of steps 0000, 0001, 0002, …, the first is 0000/loss/a"
    assert structure(many[4:], many) == [told]


def test_a_distance_across_zero_is_not_told_in_ulps() -> None:
    twin = prepared(PASSES).twin
    name = "0000/gradient/context0/worker1"
    right = twin.tensors[name]
    one = right.nextafter(right + 1)
    for wrong, told in ((-right, False), (0 * right, False), (right + 2.0**-40, True), (one, True)):
        found = str(explain({**twin.tensors, name: wrong}, twin))
        assert bool(re.search(r"\d ULPs", found)) == told


def test_a_shape_of_one_is_told_and_its_number_compared() -> None:
    twin = prepared(PASSES).twin
    name = "0000/loss/context0"
    doubled = {key: tensor * 2 for key, tensor in twin.tensors.items() if key.startswith("0000/loss/")}
    found = explain({**twin.tensors, **doubled, name: doubled[name].reshape(1)}, twin)
    assert found.lines[0] == f"{name}: yours has shape (1,), the reference's (): one number, but with a dimension"
    assert "the right numbers times 2" in str(found)


def test_a_dtype_that_is_another_throughout_is_one_line() -> None:
    yours = {name: torch.ones(2, dtype=torch.float64) for name in ("0000/loss/a", "0000/gradient/a", "initial/a")}
    found = explain(yours, {name: tensor.float() for name, tensor in yours.items()})
    told = "3 tensors: yours is torch.float64, the reference's torch.float32; the first is initial/a"
    assert found.lines == [told]


@pytest.mark.parametrize("shape", [(3, 0), (3, 2)])
def test_numbers_of_another_shape_are_not_compared_one_by_one(shape: tuple[int, int]) -> None:
    """Not even those of a matrix that may be transposed."""
    found = explain({"x": torch.ones(shape)}, {"x": torch.zeros(shape[::-1])})
    assert found.lines == [
        f"x: yours has shape {shape}, the reference's {shape[::-1]}",
        "1 of 1 tensors differ by more than rounding, the first is x.",
    ]


def test_of_two_traces_that_diverge_alike_nothing_is_told() -> None:
    both = {"x": torch.tensor([1.0, torch.nan]), "y": torch.tensor([2.0])}
    assert str(explain(both, both)) == ""
    found = explain({**both, "y": torch.tensor([3.0])}, both)
    assert found.lines[-1].startswith("y: 1 of 1 numbers differ")


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
def test_no_distance_is_told_from_a_number_that_is_not_finite(wrong: float) -> None:
    found = explain({"x": torch.tensor([1.0, 2.0])}, {"x": torch.tensor([1.0, wrong])})
    assert re.fullmatch(r"x: 1 of 2 numbers differ[a-z ]*; the first is x\[1\]: .*", found.lines[-1])
