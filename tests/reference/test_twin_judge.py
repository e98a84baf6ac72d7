"""The judge with torch: a suite whose inputs are not those of this machine's twin judges no answer; what is counted."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from reference.conform.answer import Answer
from reference.conform.export import export
from reference.conform.inputs import prepare
from reference.conform.judge import RIGHT, judge_answer
from reference.conform.suite import Entry, Suite, SuiteBroken, SuiteCase, chosen, open_suite
from reference.conform.tensor_file import Array, Tensors, write
from reference.conform.twin import check_inputs, judge_with_twin, prepared
from tests.mutants.mutant import Mutant
from tests.support.numpy_programs import answer, numpy_variants

CASE = "parameter_server-001"


@pytest.mark.long
@pytest.mark.parametrize("variant", [*numpy_variants()], ids=lambda each: each.name)
def test_a_right_program_that_computes_otherwise_passes(variant: Mutant, suite: Suite, tmp_path: Path) -> None:
    case = suite.cases[variant.models]
    assert judge_with_twin(case, answer(variant, variant.models, tmp_path))[0] in RIGHT


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> SuiteCase:
    """A case of a suite that has no other one, which takes seconds less to export."""
    folder = tmp_path_factory.mktemp("conform") / "suite"
    export(folder, chosen("core", CASE))
    return open_suite(folder).cases[CASE]


def judged_with(case: SuiteCase, inputs: dict[str, Array], folder: Path) -> str:
    """Judge the right answer to the case, which an older suite would have with these inputs."""
    given = folder / CASE
    shutil.copytree(case.folder, given)
    write(given / "input.safetensors", inputs)
    older = SuiteCase(given, case.described)
    return judge_answer(older, Answer(tensors=Tensors(prepared(CASE).outputs)), None)[0]


def test_one_bit_of_any_input_that_the_twin_has_otherwise_is_named(case: SuiteCase, tmp_path: Path) -> None:
    inputs = case.inputs
    for number, (name, array) in enumerate(inputs.items()):
        content = bytearray(array.tobytes())
        content[number % len(content)] ^= 1
        other = np.frombuffer(bytes(content), array.dtype).reshape(array.shape)
        with pytest.raises(SuiteBroken, match=f"{CASE}: this torch draws another {name} than the one that exported"):
            judged_with(case, {**inputs, name: other}, tmp_path / str(number))


@pytest.mark.parametrize("change", [{"data/more": np.zeros(1)}, {}], ids=["one more", "one less"])
def test_another_set_of_inputs_judges_nothing(change: dict[str, Array], case: SuiteCase, tmp_path: Path) -> None:
    inputs = dict(case.inputs)
    if not change:
        inputs.popitem()
    with pytest.raises(SuiteBroken, match=f"{CASE}: the suite has other inputs than this version"):
        judged_with(case, inputs | change, tmp_path)


def test_inputs_that_are_no_tensors_are_a_broken_suite(case: SuiteCase, tmp_path: Path) -> None:
    (tmp_path / "input.safetensors").write_bytes(b"x")
    with pytest.raises(SuiteBroken, match=f"{tmp_path}: input.safetensors: 1 bytes, wanted a safetensors file"):
        check_inputs(SuiteCase(tmp_path, case.described), prepared(CASE))


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"arithmetic": "exact"}, "differs: 1 of 20 tensors differ, the first is 0000/loss/worker1."),
        ({}, "differs: 1 of 20 tensors differ by more than rounding, the first is 0000/loss/worker1."),
        (
            {"lr": 1e7, "staleness": 0},
            "unknown: 1 of 20 tensors have other bits; the twin itself has NaN or infinity in",
        ),
    ],
    ids=["exact", "natural", "undecided"],
)
def test_what_was_given_is_not_counted(fields: dict[str, object], told: str, tmp_path: Path) -> None:
    """Four steps have a loss, two gradients and two parameters each."""
    reference = prepare(Entry("parameter_server-000", {"steps": 4, **fields}))
    wrong = reference.outputs | {"0000/loss/worker1": reference.outputs["0000/loss/worker1"] + np.float32(1)}
    case = SuiteCase(tmp_path, reference.describe())
    verdict, text, _ = judge_answer(case, Answer(tensors=Tensors(wrong)), None, reference)
    assert f"{verdict}: {text}".startswith(told)


def test_nan_begins_in_the_first_layer_that_has_it_where_outputs_are_recorded(tmp_path: Path) -> None:
    """The file has tensors in the order of their names, in which the decoder is before the LSTM."""
    reference = prepare(Entry("rnn-000", {"steps": 1, "ninp": 2, "nhid": 2, "nlayers": 1}))
    layers = [f"0000/output/trainer/{layer}" for layer in ("rnn", "decoder.drop", "decoder.decoder")]
    wrong = reference.outputs | reference.optional
    wrong |= {name: wrong[name] * np.float32("nan") for name in (*layers, "0000/loss/trainer")}
    case = SuiteCase(tmp_path, reference.describe())
    found = judge_answer(case, Answer(tensors=Tensors(dict(sorted(wrong.items())))), None, reference)
    told = f"NaN or infinity begins in {layers[0]}: 30 of 30 numbers, where the reference has none."
    assert found[:2] == ("differs", told)
    assert found[2] == ("The 2 tensors before it have none.",)
