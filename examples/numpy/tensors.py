"""Read and write the files of a conformance case: safetensors, with NumPy alone."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray[Any, Any]]
DTYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "BF16": "<u2"}


def read(path: Path) -> Arrays:
    content = path.read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    found = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        array = np.frombuffer(data[begin:end], DTYPES[entry["dtype"]]).reshape(entry["shape"]).copy()
        found[name] = (array.astype("<u4") << 16).view("<f4") if entry["dtype"] == "BF16" else array
    return found


def rounded(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The bits of bfloat16, the upper half of float32's, rounded to nearest even."""
    bits = array.view("<u4")
    nearest = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(array), 0x7FC0, nearest).astype("<u2")


def write(path: Path, arrays: Arrays, short: bool = False) -> None:
    """``short``: write numbers of float32 as bfloat16, which NumPy does not have."""
    header, body = {}, b""
    for name, array in arrays.items():
        if short and array.dtype == np.float32:
            array = rounded(array)
        content = array.tobytes()
        dtype = next(word for word, each in DTYPES.items() if np.dtype(each) == array.dtype)
        header[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": [len(body), len(body) + len(content)]}
        body += content
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def main(train: Callable[[dict[str, Any], Arrays], Arrays]) -> None:
    """Answer one case: ``PROGRAM CASE_DIR OUT_DIR``."""
    given, answers = map(Path, sys.argv[1:])
    case = json.loads((given / "case.json").read_text())["case"]
    found = train(case, read(given / "input.safetensors"))
    arrays = {name: np.asarray(array) for name, array in found.items()}
    write(answers / "trace.safetensors", arrays, short=case.get("dtype") == "bfloat16")
