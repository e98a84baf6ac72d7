"""The RNN: its case holds which text it learns. tests/properties has runs against their twins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reference.rnn import Case, RNNModel, roles, train_locally
from reference.trace import CaseError
from reference.world import World
from tests.support.runs import against_twin, run_in

pytestmark = pytest.mark.world("ps", "trainer")


def test_the_published_sizes_learn_a_little() -> None:
    losses = train_locally(Case()).losses()
    assert sum(losses[-5:]) < sum(losses[:5]) - 0.5


@pytest.mark.parametrize(
    ("content", "fields", "wanted"),
    [
        (None, {}, "the name of a file that can be read (No such file or directory)"),
        (b"", {}, "6 bytes or more, not all the same"),
        (b"aaaaaaaaaa", {}, "6 bytes or more, not all the same"),
        (b"abcdef", {"batch_size": 7}, "7 bytes or more, not all the same"),
    ],
)
def test_texts_that_are_refused(tmp_path: Path, content: bytes | None, fields: dict[str, Any], wanted: str) -> None:
    file = tmp_path / "text"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(CaseError) as caught:
        Case(text=str(file), **fields)
    assert str(caught.value) == f"rnn: text must be {wanted}, got {str(file)!r}"


def test_a_name_that_is_no_file_name() -> None:
    wanted = r"^rnn: text must be the name of a file that can be read \(.*null (byte|character)"
    with pytest.raises(CaseError, match=wanted):
        Case(text="a\0b")


def test_a_case_holds_the_sha_256_of_its_text(tmp_path: Path) -> None:
    """A trace therefore says which bytes it learnt, wherever the file was."""
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "text").write_bytes(b"hello world")
    here, there = (Case(text=str(tmp_path / folder / "text")) for folder in ("a", "b"))
    assert here.text_sha256 == "b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9"
    assert here != there
    assert here.same_result_as(there)
    assert not here.same_result_as(Case())


def test_a_case_whose_text_is_not_here_can_be_read_but_not_played(tmp_path: Path) -> None:
    """As the trace of another machine, for `reference compare`."""
    file = tmp_path / "text"
    file.write_bytes(b"hello world")
    case = Case(text=str(file))
    file.unlink()
    elsewhere = Case.from_json(case.to_json())
    assert elsewhere == case
    for play in (roles, train_locally):
        with pytest.raises(CaseError, match=r"^rnn: text must be the name of a file that can be read \(No such file"):
            play(elsewhere)


def test_a_text_that_has_changed_since_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "text"
    file.write_bytes(b"hello world")
    case = Case(text=str(file))
    assert Case.from_json(case.to_json()) == case
    file.write_bytes(b"hello worle")
    told = f"rnn: text must be a file with the SHA-256 '{case.text_sha256}', or an empty text_sha256, got {str(file)!r}"
    for use in (lambda: Case.from_json(case.to_json()), lambda: roles(case), lambda: train_locally(case)):
        with pytest.raises(CaseError) as caught:
            use()
        assert str(caught.value) == told


def wanted_gradients() -> list[bool]:
    """Runs on trainer: whether each value of a model whose embedding and decoder live on ``ps`` wants gradients."""
    sizes: dict[str, Any] = {"ntoken": 3, "ninp": 2, "nhid": 2, "nlayers": 1, "dropout": 0.0}
    return [value.requires_grad for value in RNNModel("ps", **sizes, seed=0, dtype="float32").values().values()]


def test_values_are_the_parameters_without_their_graph(world: World) -> None:
    assert world.call("trainer", wanted_gradients) == [False] * 7


def test_another_text_can_be_trained_on(world: World, tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(bytes(range(256)))
    small: dict[str, Any] = {"steps": 6, "batches": 4, "nlayers": 2, "nhid": 4, "batch_size": 4, "timeout": 20}
    trace = run_in(world, Case(text=str(tmp_path / "text"), dtype="float64", **small))
    assert trace.tensors["initial/emb_table/encoder.weight"].shape == (256, Case().ninp)
    assert against_twin(trace).equal
