"""Tokens of a text."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from reference.system.files import LONGEST
from reference.training.data import Corpus, read_text


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
