"""Change one tensor of a message: a bit, an element, all elements, or the whole tensor for that of another call.

The tensor of the message is copied first, because the program may still hold it. A hash of the plan's seed and of the
call decides which tensor, element and bit.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch


class NothingToCorrupt(ValueError):
    """The message has no tensor that can be changed so. One line that says why."""


@dataclass(frozen=True)
class Corruption:
    """A change of one tensor. ``position``: its place among the message's tensors, from 0; ``bit``: None for a change
    of more than one bit."""

    position: int
    old: torch.Tensor
    new: torch.Tensor
    bit: int | None = None

    @property
    def changed(self) -> int:
        """The number of elements whose bits differ."""
        return len(self._places())

    def _places(self) -> list[int]:
        same = (_bytes(self.old) == _bytes(self.new)).reshape(self.old.numel(), -1).all(1)
        return (~same).nonzero().reshape(-1).tolist()

    def receipt(self) -> dict[str, Any]:
        """Return what the ledger keeps: the tensor, the first element that differs, its value before and after."""
        places = self._places()
        first = places[0] if places else 0
        values = {"old": str(_flat(self.old)[first].item()), "new": str(_flat(self.new)[first].item())}
        element = list(_index(first, self.old.shape))
        bit = {} if self.bit is None else {"bit": self.bit}
        tensor = {"tensor": self.position, "shape": list(self.old.shape), "dtype": name_of(self.old.dtype)}
        return {**tensor, "element": element, **bit, **values, "changed": len(places)}


def corrupt(
    tensors: Sequence[torch.Tensor], how: str, earlier: Sequence[torch.Tensor] | None, draw: Callable[[str, int], int]
) -> Corruption:
    """Make a changed copy of one of these tensors. ``earlier``: those of an earlier call, None if there is none.

    ``draw``: chooses a number from 0 below its second argument, for the purpose that its first argument names.

    Raises:
        NothingToCorrupt: no tensor can be changed so.
    """
    able = [place for place, tensor in enumerate(tensors) if _can_change(tensor, how)]
    if not able:
        kind = "floating-point tensor" if how == "nan" else "tensor"
        raise NothingToCorrupt(f"wanted a {kind} with elements, got {_said(tensors)}")
    if how == "other":
        return _exchanged(tensors, able, earlier, draw)
    place = able[draw("tensor", len(able))]
    old = tensors[place]
    if how == "zeros":
        new = old.clone()
        new.detach().zero_()
        return Corruption(place, old.detach(), new)
    return _at_one_element(place, old, how, draw)


def _at_one_element(place: int, old: torch.Tensor, how: str, draw: Callable[[str, int], int]) -> Corruption:
    new, bit = old.clone(), None
    index = _index(draw("element", old.numel()), old.shape)
    element = old.detach()[index].resolve_conj().resolve_neg().reshape(1)
    if how == "nan":
        other = torch.full_like(element, math.nan)
    else:
        bit = draw("bit", 1 if old.dtype == torch.bool else 8 * old.element_size())
        other = _flipped(element, bit)
    new.detach()[index] = other[0]
    return Corruption(place, old.detach(), new, bit)


def _index(number: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the index of the element with this number. `torch.unravel_index` would import 400 modules for 2 s."""
    found: list[int] = []
    for size in reversed(shape):
        number, place = divmod(number, size)
        found.insert(0, place)
    return tuple(found)


def _flipped(element: torch.Tensor, bit: int) -> torch.Tensor:
    raw = element.clone().view(torch.uint8)
    raw[bit // 8] ^= 1 << bit % 8
    return raw.view(element.dtype)


def _exchanged(
    tensors: Sequence[torch.Tensor],
    able: Sequence[int],
    earlier: Sequence[torch.Tensor] | None,
    draw: Callable[[str, int], int],
) -> Corruption:
    if earlier is None:
        raise NothingToCorrupt("no earlier call of this caller and site has reached this callee")
    pairs = [(place, other) for place in able for other in _alike(tensors[place], earlier, place)]
    if not pairs:
        said = f"that of the earlier call has {_said(earlier)}, and this one has {_said(tensors)}"
        raise NothingToCorrupt(f"wanted a tensor of the same shape and dtype; {said}")
    place, other = pairs[draw("tensor", len(pairs))]
    new = tensors[place].clone()
    new.detach().copy_(other)
    return Corruption(place, tensors[place].detach(), new)


def _alike(tensor: torch.Tensor, earlier: Sequence[torch.Tensor], place: int) -> list[torch.Tensor]:
    """Return the earlier call's tensor of that shape and dtype: at the same position if it is there, else the first."""
    same = [each for each in (*earlier[place : place + 1], *earlier) if _form(each) == _form(tensor)]
    return same[:1]


def _form(tensor: torch.Tensor) -> tuple[torch.Size, torch.dtype, torch.layout]:
    return tensor.shape, tensor.dtype, tensor.layout


def _can_change(tensor: torch.Tensor, how: str) -> bool:
    plain = tensor.layout == torch.strided and tensor.numel() > 0 and not tensor.is_quantized and not tensor.is_meta
    return plain and (how != "nan" or tensor.is_floating_point() or tensor.is_complex())


def _said(tensors: Sequence[torch.Tensor]) -> str:
    return ", ".join(f"{name_of(each.dtype)}{list(each.shape)}" for each in tensors[:4]) or "no tensor"


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().resolve_conj().resolve_neg().reshape(-1)


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return _flat(tensor).contiguous().view(torch.uint8)


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors have the same shape, dtype and bits."""
    return _form(one) == _form(other) and bool(torch.equal(_bytes(one), _bytes(other)))


def digest(tensor: torch.Tensor) -> str:
    """Return the first 16 digits of the SHA-256 of a tensor's bytes, in the order of its elements."""
    return hashlib.sha256(_bytes(tensor).cpu().numpy().tobytes()).hexdigest()[:16]
