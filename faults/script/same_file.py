"""Compare a file of two runs: its bytes, or the tensors in it, loaded without executing code from the file."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def difference(wanted: Path, got: Path) -> str | None:
    """Return one line about what differs, None if nothing does.

    Files of the same bytes are equal. Other files are equal if both hold tensors (safetensors, or `torch.save` with
    what `weights_only` loads), and all tensors have the same names, shapes, types and bits.
    """
    before, after = wanted.read_bytes(), got.read_bytes()
    if before == after:
        return None
    try:
        return _of_values(_loaded(wanted), _loaded(got))
    except Exception:  # not of tensors, or not whole: any error of the libraries that read it
        return _of_bytes(before, after)


def _of_bytes(before: bytes, after: bytes) -> str:
    place = next((n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), None)
    if place is None:
        return f"{len(after)} bytes, wanted {len(before)}"
    return f"byte {place} of {len(after)} differs, wanted {len(before)} bytes"


def _loaded(path: Path) -> dict[str, Any]:
    """Return the values in a file by their names. Raises an error if it is no file of tensors."""
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return dict(load_file(path))
    if not zipfile.is_zipfile(path):
        raise ValueError("not written by torch.save")
    import torch  # here, so that a sweep without files of tensors needs none

    return dict(_flat("", torch.load(path, map_location="cpu", weights_only=True)))


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the values within mappings and lists, each with its path."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _flat(f"{name}.{key}" if name else str(key), each)
    elif isinstance(value, (list, tuple)):
        for number, each in enumerate(value):
            yield from _flat(f"{name}[{number}]", each)
    else:
        yield name, value


def _of_values(before: Mapping[str, Any], after: Mapping[str, Any]) -> str | None:
    for name in (*before, *after):
        if name not in after:
            return f"no {name}"
        if name not in before:
            return f"{name}, which is not wanted"
        if text := _of_value(before[name], after[name]):
            return f"{name}: {text}"
    return None


def _of_value(before: Any, after: Any) -> str | None:
    import torch

    if not (isinstance(before, torch.Tensor) and isinstance(after, torch.Tensor)):
        return None if type(before) is type(after) and before == after else f"{after!r}, wanted {before!r}"
    if (before.dtype, before.shape) != (after.dtype, after.shape):
        return f"{after.dtype} of shape {tuple(after.shape)}, wanted {before.dtype} of shape {tuple(before.shape)}"
    differs = _bits(before) != _bits(after)
    if not differs.any():
        return None
    numbers = differs.reshape(max(before.numel(), 1), -1).any(dim=1)
    return f"{int(numbers.sum())} of {before.numel()} numbers have other bits"


def _bits(tensor: Any) -> Any:
    import torch

    return tensor.contiguous().reshape(-1).view(torch.uint8)
