"""Files of tensors: what NumPy alone reads and writes, and what is refused."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from reference.conform.inputs import tensor_of
from reference.conform.tensor_file import DTYPES, Malformed, Tensors, read, write
from reference.trace.names import DIMENSIONS

LONGEST = 2**20


def file_of(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    """The content of a file. ``length``: what it says of its header's, by default the truth."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def found_in(content: bytes, folder: Path) -> Tensors:
    (folder / "x").write_bytes(content)
    return read(folder / "x", LONGEST)


def entry(dtype: str = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def test_a_file_that_was_written_is_read_by_safetensors_itself(tmp_path: Path) -> None:
    arrays = {"b": np.arange(6.0).reshape(2, 3), "a/c": np.array(3, np.int64), "empty": np.zeros((0, 2), np.float32)}
    write(tmp_path / "x", arrays)
    found = load_file(tmp_path / "x")
    assert {name: (t.shape, t.tolist()) for name, t in found.items()} == {
        name: (torch.Size(array.shape), array.tolist()) for name, array in arrays.items()
    }


def test_each_dtype_is_read_as_safetensors_writes_it(tmp_path: Path) -> None:
    kinds = [
        torch.float64,
        torch.float32,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int8,
        torch.uint8,
        torch.bool,
    ]
    assert len(kinds) == len(DTYPES)
    tensors = {str(kind): torch.tensor([[0, 1], [1, 0]]).to(kind) for kind in kinds}
    save_file(tensors, tmp_path / "x", metadata={"name": "text"})
    found = read(tmp_path / "x", LONGEST)
    assert not found.problems
    assert {name: tensor_of(array).tolist() for name, array in found.arrays.items()} == {
        name: tensor.tolist() for name, tensor in tensors.items()
    }


MALFORMED = {
    "no room for a header": (b"1234567", "wanted a safetensors file"),
    "a short header": (file_of(b"{}", length=3), "a header of 3 bytes, wanted at most 2$"),
    "no JSON": (file_of(b"{"), "its header must be a JSON object, got b'{' "),
    "metadata": (file_of(b'{"__metadata__": {"a": 1}}'), "its __metadata__ must be texts by name"),
    "more bytes": (file_of({"a": entry()}, bytes(11)), r"^x: 3 bytes after its tensors, wanted none$"),
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_a_malformed_file_is_refused(kind: str, tmp_path: Path) -> None:
    content, why = MALFORMED[kind]
    with pytest.raises(Malformed, match=why):
        found_in(content, tmp_path)


@pytest.mark.parametrize("shape", [[2] + [1] * (DIMENSIONS - 1), [0]], ids=["the most dimensions", "no bytes"])
def test_a_shape_at_a_limit_is_read(shape: list[int], tmp_path: Path) -> None:
    size = 8 * min(shape[0], 1)
    found = found_in(file_of({"a": entry(shape=shape, offsets=(0, size))}, bytes(size)), tmp_path)
    assert found.arrays["a"].shape == tuple(shape)


def test_a_file_that_is_too_long_is_refused_unread(tmp_path: Path) -> None:
    with (tmp_path / "x").open("wb") as file:
        file.truncate(2**33)
    with pytest.raises(Malformed, match=f"more than {LONGEST} bytes"):
        read(tmp_path / "x", LONGEST)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (entry(dtype="F16"), "dtype 'F16', wanted the one that case.json lists"),
        (entry(shape=[-1]), "shape [-1], wanted"),
        (entry(shape=[True]), "shape [True], wanted"),
        (entry(shape=[2**62]), "shape [4611686018427387904], wanted"),
        (entry(shape=[2] + [1] * DIMENSIONS), "at most 32"),
        (entry(shape=[0, 2**40, 2**40], offsets=(0, 0)), "wanted at most 32 whole numbers and"),
        (entry(offsets=[0, 16]), "16 bytes, wanted 8"),
        (entry(offsets=[8, 0]), "data_offsets"),
        (entry(offsets=[0, 10**9]), "data_offsets"),
        (entry(offsets=[4, 12]), "overlap those of 'good'"),
        ({"dtype": "F32"}, "wanted dtype, shape and data_offsets"),
        (None, "wanted dtype, shape and data_offsets"),
        ({**entry(), "shape": 2}, "shape 2, wanted"),
    ],
)
def test_one_bad_tensor_does_not_hide_the_others(tmp_path: Path, bad: Any, why: str) -> None:
    good = np.array([1.0, 2.0], np.float32)
    found = found_in(file_of({"good": entry(), "bad": bad}, good.tobytes() * 2), tmp_path)
    assert list(found.arrays) == ["good"]
    assert found.arrays["good"].tolist() == [1.0, 2.0]
    assert why in found.problems["bad"]


@pytest.mark.parametrize("name", ["../a", "a//b", "", "a\nb", "x" * 2000])
def test_a_name_that_means_a_folder_or_cannot_be_printed_is_refused(tmp_path: Path, name: str) -> None:
    found = found_in(file_of({name: entry()}, bytes(8)), tmp_path)
    assert not found.arrays
    assert "a tensor's name" in found.problems[name]
