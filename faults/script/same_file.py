"""Compare a file of two runs: its bytes, or the tensors in it, loaded without executing code from the file."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# The keys from the whole to a value, each with the name of its type.
Keys = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class _Container:
    """A mapping or list, without what is in it."""

    kind: str

    def __repr__(self) -> str:
        return f"a {self.kind}"


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


def _loaded(path: Path) -> dict[Keys, Any]:
    """Return the values in a file by their paths. Raises an error if it is no file of tensors."""
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return dict(_flat((), load_file(path)))
    if not zipfile.is_zipfile(path):
        raise ValueError("not written by torch.save")
    import torch  # here, so that a sweep without files of tensors needs none

    return dict(_flat((), torch.load(path, map_location="cpu", weights_only=True)))


def _flat(path: Keys, value: Any) -> Iterator[tuple[Keys, Any]]:
    """Yield each mapping and list as the name of its type, and the values within, each with its path.

    A path has each key with its type, because 1, 1.0 and True are equal keys.
    """
    if isinstance(value, Mapping):
        yield path, _Container(type(value).__name__)
        for key, each in value.items():
            yield from _flat((*path, (type(key).__name__, key)), each)
    elif isinstance(value, (list, tuple)):
        yield path, _Container(type(value).__name__)
        for number, each in enumerate(value):
            yield from _flat((*path, ("int", number)), each)
    else:
        yield path, value


def _named(path: Keys) -> str:
    """Write a path as ``model.layer[0]``."""
    words = [f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]" for _, key in path]
    return "".join(words).removeprefix(".") or "the whole"


def _of_values(before: Mapping[Keys, Any], after: Mapping[Keys, Any]) -> str | None:
    for path in (*before, *after):
        if path not in after:
            return f"no {_named(path)}"
        if path not in before:
            return f"{_named(path)}, which is not wanted"
    for path in before:
        if text := _of_value(before[path], after[path]):
            return f"{_named(path)}: {text}"
    return None


def _of_value(before: Any, after: Any) -> str | None:
    import torch

    if not (isinstance(before, torch.Tensor) and isinstance(after, torch.Tensor)):
        return None if _is_same(before, after) else f"{after!r}, wanted {before!r}"
    if (before.dtype, before.shape) != (after.dtype, after.shape):
        return f"{after.dtype} of shape {tuple(after.shape)}, wanted {before.dtype} of shape {tuple(before.shape)}"
    differs = _bits(before) != _bits(after)
    if not differs.any():
        return None
    numbers = differs.reshape(max(before.numel(), 1), -1).any(dim=1)
    return f"{int(numbers.sum())} of {before.numel()} numbers have other bits"


def _is_same(before: Any, after: Any) -> bool:
    """Whether two values that are no tensors are the same; of numbers all bits, so that 0.0 is not -0.0."""
    if type(before) is not type(after):
        return False
    return repr(before) == repr(after) if isinstance(before, (float, complex)) else bool(before == after)


def _bits(tensor: Any) -> Any:
    import torch

    return tensor.contiguous().reshape(-1).view(torch.uint8)
