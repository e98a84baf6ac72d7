"""Tokens of a text, and linear tasks: batches, in the case's dtype and in whole numbers where exact."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from reference.system.files import LONGEST
from reference.training.data import Batch, Corpus, linear_batches, read_text
from reference.training.rng import seed_for
from reference.training.training_case import ExactableCase


def text_of(corpus: Corpus, column: torch.Tensor) -> bytes:
    return bytes(corpus.alphabet[number] for number in column.tolist())


def test_columns_are_consecutive_bytes_and_the_targets_one_later() -> None:
    corpus = Corpus(b"the quick brown fox jumps")
    data, target = corpus.batch(0, 6, 2)
    assert data.shape == (6, 2)
    assert target.shape == (6, 2)
    assert data.dtype == torch.int64
    assert [text_of(corpus, data[:, column]) for column in (0, 1)] == [b"the qu", b"own fo"]
    assert [text_of(corpus, target[:, column]) for column in (0, 1)] == [b"he qui", b"wn fox"]


def test_batches_follow_each_other_round_the_ring() -> None:
    corpus = Corpus(b"abcdefg")
    read = b"".join(text_of(corpus, corpus.batch(index, 3, 1)[0][:, 0]) for index in range(5))
    assert read == b"abcdefgabcdefga"


def test_tokens_number_the_bytes_there_are() -> None:
    corpus = Corpus(bytes([255, 0, 10, 255]))
    assert corpus.ntoken == 3
    assert corpus.alphabet == bytes([0, 10, 255])
    assert corpus.tokens.tolist() == [2, 0, 1, 2]


def test_all_256_bytes_can_be_tokens() -> None:
    assert Corpus(bytes(range(256))).tokens.tolist() == list(range(256))


def test_the_shipped_text_is_long_enough_and_ascii() -> None:
    text = read_text()
    assert text.isascii()
    assert len(text) > 2000
    assert 25 < Corpus(text).ntoken < 64


def test_a_file_is_read_byte_by_byte(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"\x00\xff")
    assert read_text(str(tmp_path / "text")) == b"\x00\xff"


def test_a_text_that_is_too_long_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "text").open("wb") as file:
        file.truncate(LONGEST + 1)
    with pytest.raises(OSError, match=f"it has more than {LONGEST} bytes"):
        read_text(str(tmp_path / "text"))


@dataclass(frozen=True)
class Sample(ExactableCase):
    """A case without fields of its own."""


def drawn(name: str = "a", steps: int = 3, **fields: Any) -> list[Batch]:
    return list(linear_batches(Sample(steps=steps, **fields), name, 6, 4, 2))


def normal(name: str, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed_for(5, name)))


def test_the_target_is_one_linear_function_of_all_data() -> None:
    teacher = normal("teacher", 4, 2)
    for data, target in [*drawn("a", seed=5), *drawn("b", seed=5)]:
        assert data.shape == (6, 4)
        assert target.shape == (6, 2)
        assert torch.equal(target, data @ teacher)


def test_in_float64_the_product_is_one_of_float64() -> None:
    for (narrow, _), (data, target) in zip(drawn(seed=5), drawn(seed=5, dtype="float64"), strict=True):
        assert data.dtype == target.dtype == torch.float64
        assert torch.equal(data, narrow.double())
        assert torch.equal(target, data @ normal("teacher", 4, 2).double())


def test_data_are_the_draws_of_the_name_step_by_step() -> None:
    draws = torch.Generator().manual_seed(seed_for(5, "b"))
    for (data, _), (other, _) in zip(drawn("b", seed=5), drawn("a", seed=5), strict=True):
        assert torch.equal(data, torch.randn(6, 4, generator=draws))
        assert not torch.equal(data, other)


def test_exact_batches_are_small_whole_numbers() -> None:
    batches = drawn(arithmetic="exact", dtype="float64", steps=20)
    for place in range(2):
        tensors = torch.stack([batch[place] for batch in batches])
        assert tensors.dtype == torch.float64
        assert set(tensors.flatten().tolist()) == {-2.0, -1.0, 0.0, 1.0, 2.0}
