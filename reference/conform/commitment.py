"""Commit to a tensor's value without telling it: a SHA-256 that any machine can compare, without torch."""

from __future__ import annotations

import hashlib

import numpy as np

from reference.conform.tensor_file import Array, dtype_name


def commitment(array: Array) -> str:
    """Return the SHA-256 of dtype, shape and numbers in row-major order, little-endian; -0.0 counts as 0.0."""
    plain = array + array.dtype.type(0) if array.dtype.kind == "f" else array
    head = f"{dtype_name(array)} {'x'.join(map(str, array.shape))}\n".encode()
    body = np.ascontiguousarray(plain, array.dtype.newbyteorder("<")).tobytes()
    return hashlib.sha256(head + body).hexdigest()
