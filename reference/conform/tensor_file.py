"""Read and write safetensors files with NumPy alone. The reader trusts nothing: the file may be a stranger's.

A file is the length of its header (8 bytes, little-endian), the header (JSON), and the tensors' bytes. The header has
for each name the ``dtype``, the ``shape`` and the ``data_offsets`` [begin, end) of its bytes after the header.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from reference.system.files import content_of, whole
from reference.system.json_objects import NoObject, json_object, named, text
from reference.system.text import OneLine, shown
from reference.trace.names import DIMENSIONS, ELEMENTS, misnamed

Array = np.ndarray[Any, Any]
# NumPy has no bfloat16: these are its bits, under a name of their own.
BFLOAT16 = np.dtype([("bfloat16", "<i2")])
# The dtypes that a case can ask for, little-endian.
_IN_NUMPY = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "I8": "|i1", "U8": "|u1", "BOOL": "|b1"}
DTYPES = {**{name: np.dtype(code) for name, code in _IN_NUMPY.items()}, "BF16": BFLOAT16}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}


class Malformed(OneLine, ValueError):
    """A file is no safetensors file."""


@dataclass
class Tensors:
    """What a file holds: its readable tensors by name, and one line for each of the others."""

    arrays: dict[str, Array] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)


def dtype_name(array: Array) -> str:
    """Return safetensors' name of an array's dtype. Raises KeyError: it has none here."""
    return _NAMES[array.dtype.newbyteorder("<")]


def write(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write a file whole or not at all. Equal arrays give equal bytes.

    Raises:
        OSError: the file cannot be written.
    """
    header, place = {}, 0
    for name, array in sorted(arrays.items()):
        header[name] = {
            "dtype": dtype_name(array),
            "shape": list(array.shape),
            "data_offsets": [place, place + array.nbytes],
        }
        place += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # as safetensors itself does, so that the tensors are aligned
    with whole(path) as scratch, scratch.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, array in sorted(arrays.items()):
            file.write(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes())


def read(path: Path, longest: int) -> Tensors:
    """Read a file of at most ``longest`` bytes. One tensor that cannot be read does not hide the others.

    Raises:
        Malformed: the file cannot be read, or its header cannot.
    """
    try:
        content = content_of(path, longest)
    except OSError as error:
        raise Malformed(f"{path.name}: {error.strerror}") from error
    found = Tensors()
    header, data = _split(path.name, content)
    last = 0, ""  # the end of the tensors so far, and the name of the last one
    for name, entry in sorted(header.items(), key=_begin):
        try:
            found.arrays[name], end = _array(name, entry, data, last)
            last = max(last, (end, name))
        except Malformed as error:
            found.problems[name] = str(error)
    if last[0] < len(data) and not found.problems:
        raise Malformed(f"{path.name}: {len(data) - last[0]} bytes after its tensors, wanted none")
    return found


def _split(file: str, content: bytes) -> tuple[dict[str, Any], memoryview]:
    """Return the header without its metadata, and the tensors' bytes."""
    if len(content) < 8:
        raise Malformed(f"{file}: {len(content)} bytes, wanted a safetensors file")
    (length,) = struct.unpack_from("<Q", content)
    if length > len(content) - 8:
        raise Malformed(f"{file}: a header of {length} bytes, wanted at most {len(content) - 8}")
    try:
        header = json_object(content[8 : 8 + length], "its header")
    except NoObject as error:
        raise Malformed(f"{file}: {error}") from error
    if not named(text)(header.pop("__metadata__", {})):
        raise Malformed(f"{file}: its __metadata__ must be texts by name")
    return header, memoryview(content)[8 + length :]


def _begin(item: tuple[str, Any]) -> tuple[int, str]:
    """Sort by the place of the bytes, where there is one."""
    try:
        return int(item[1]["data_offsets"][0]), item[0]
    except (TypeError, KeyError, IndexError, ValueError, OverflowError):
        return -1, item[0]


def _array(name: str, entry: Any, data: memoryview, last: tuple[int, str]) -> tuple[Array, int]:
    """Make one tensor, and tell its end. ``last``: the end of the tensors before it, and a name."""
    if why := misnamed(name):
        raise Malformed(why)
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise Malformed(f"wanted dtype, shape and data_offsets, got {shown(entry)}")
    dtype, shape, place = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise Malformed(f"dtype {shown(dtype)}, wanted the one that case.json lists")
    # NumPy multiplies the sizes of an empty tensor, too.
    if not _counts(shape) or len(shape) > DIMENSIONS or math.prod(max(1, size) for size in shape) > ELEMENTS:
        raise Malformed(f"shape {shown(shape)}, wanted at most {DIMENSIONS} whole numbers and {ELEMENTS} elements")
    if not _counts(place) or len(place) != 2 or not place[0] <= place[1] <= len(data):
        raise Malformed(f"data_offsets {shown(place)}, wanted [begin, end) within {len(data)} bytes")
    size = math.prod(shape) * DTYPES[dtype].itemsize
    if place[1] - place[0] != size:
        raise Malformed(f"{place[1] - place[0]} bytes, wanted {size} for {dtype} of shape {shown(tuple(shape))}")
    if size and place[0] < last[0]:
        raise Malformed(f"its bytes overlap those of {shown(last[1])}")
    return np.frombuffer(data[place[0] : place[1]], DTYPES[dtype]).reshape(shape), place[1]


def _counts(value: Any) -> bool:
    """Whether this is a list of whole numbers from 0 that a file can have."""
    return isinstance(value, list) and all(type(each) is int and 0 <= each < 2**60 for each in value)
