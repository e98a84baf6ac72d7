"""Change one tensor of a message: a bit, an element, or all elements.

The tensor of the message is copied first, because the program may still hold it. A hash of the plan's seed and of the
call decides which tensor, element and bit.
"""

from __future__ import annotations

import hashlib
import io
import math
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.distributed.rpc import PyRRef  # type: ignore[attr-defined]
from torch.distributed.rpc.internal import _internal_rpc_pickler

from faults.inject.call.envelope import Envelope
from faults.plan.plan import Fault


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

    def receipt(self) -> dict[str, Any]:
        """Return what the ledger keeps: the tensor, the first element that differs, its value before and after, and the
        number of elements whose bits differ."""
        same = (_bytes(self.old) == _bytes(self.new)).reshape(self.old.numel(), -1).all(1)
        places = (~same).nonzero().reshape(-1).tolist()
        first = places[0] if places else 0
        values = {"old": str(_flat(self.old)[first].item()), "new": str(_flat(self.new)[first].item())}
        element = list(_index(first, self.old.shape))
        bit = {} if self.bit is None else {"bit": self.bit}
        tensor = {"tensor": self.position, "shape": list(self.old.shape), "dtype": name_of(self.old.dtype)}
        return {**tensor, "element": element, **bit, **values, "changed": len(places)}


def corrupt(tensors: Sequence[torch.Tensor], how: str, draw: Callable[[str, int], int]) -> Corruption:
    """Make a changed copy of one of these tensors.

    ``draw``: chooses a number from 0 below its second argument, for the purpose that its first argument names.

    Raises:
        NothingToCorrupt: no tensor can be changed so.
    """
    able = [place for place, tensor in enumerate(tensors) if _can_change(tensor, how)]
    if not able:
        kind = "floating-point tensor" if how == "nan" else "tensor"
        raise NothingToCorrupt(f"wanted a {kind} with elements, got {_said(tensors)}")
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
    forms = [(each.shape, each.dtype, each.layout) for each in (one, other)]
    return forms[0] == forms[1] and bool(torch.equal(_bytes(one), _bytes(other)))


def digest(tensor: torch.Tensor) -> str:
    """Return the first 16 digits of the SHA-256 of a tensor's bytes, in the order of its elements."""
    return hashlib.sha256(_bytes(tensor).cpu().numpy().tobytes()).hexdigest()[:16]


class MessageTensors:
    """The tensors of a message: of a call's function and arguments, or of its answer.

    ``tensors``: each tensor once, in the order of the table that RPC's own pickler makes; a parameter is there as its
    data. Raises whatever pickling the message raises.
    """

    def __init__(self, message: Any) -> None:
        file = io.BytesIO()
        pickler = _Pickler(file)
        pickler.dump(message)
        self._pickled, self._kept = file.getvalue(), pickler.kept
        self._places = [place for place, each in enumerate(self._kept) if _is_tensor(each)]
        self.tensors: Sequence[torch.Tensor] = [self._kept[place] for place in self._places]

    def replaced(self, position: int, tensor: torch.Tensor) -> Any:
        """Return a copy of the message with another tensor at this position. Its other tensors are the same objects."""
        kept = [*self._kept]
        kept[self._places[position]] = tensor
        return _Unpickler(io.BytesIO(self._pickled), kept).load()


class _Pickler(pickle.Pickler):
    """Keep tensors, and what only RPC's own pickler can send, as the objects that they are."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.kept: list[Any] = []
        self._numbers: dict[int, int] = {}

    def persistent_id(self, obj: Any) -> int | None:
        if not _is_tensor(obj) and not isinstance(obj, (PyRRef, torch.jit.ScriptModule, torch._C.Future, *_classes())):
            return None
        if id(obj) not in self._numbers:  # no id is used again, because the list keeps the object
            self._numbers[id(obj)] = len(self.kept)
            self.kept.append(obj)
        return self._numbers[id(obj)]


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, kept: Sequence[Any]) -> None:
        super().__init__(file)
        self._kept = kept

    def persistent_load(self, number: int) -> Any:
        return self._kept[number]


def _is_tensor(value: object) -> bool:
    """Whether RPC sends it in the message's table. Subclasses, such as parameters, reduce themselves to tensors."""
    return type(value) is torch.Tensor


def _classes() -> tuple[type, ...]:
    """Return the classes that registered a reducer of their own with RPC, such as `RemoteModule`."""
    return tuple(_internal_rpc_pickler._class_reducer_dict)


class MessageCorrupter:
    """Corrupts the messages of one call. ``write``: writes an event of a fault to the callee's ledger."""

    def __init__(self, write: Callable[..., None], envelope: Envelope) -> None:
        self._write, self._envelope = write, envelope

    def message(self, number: int, fault: Fault, message: Any) -> Any:
        """Return the message with one tensor changed; the message itself if it has none that can be changed."""
        try:
            found = MessageTensors(message)
            change = corrupt(found.tensors, str(fault.change), partial(self._draw, number))
        except NothingToCorrupt as error:
            self._write("failed", number, fault, side=fault.side, why=f"the {fault.side} holds nothing to hit: {error}")
            return message
        except Exception as error:  # what RPC cannot pickle either is the program's own error, and RPC will tell it
            why = f"the {fault.side} cannot be pickled: {type(error).__name__}: {error}"[:200]
            self._write("failed", number, fault, side=fault.side, why=why)
            return message
        return self._delivered(number, fault, found, change)

    def _delivered(self, number: int, fault: Fault, found: MessageTensors, change: Corruption) -> Any:
        self._write("fired", number, fault, side=fault.side, change=fault.change, **change.receipt())
        new = change.new
        if fault.side == "request" and found.tensors[change.position].is_leaf and new.requires_grad:
            new = new.detach().requires_grad_()  # the function gets a leaf, as it was sent
        result = found.replaced(change.position, new)
        seen = MessageTensors(result).tensors[change.position]  # read again what the function, or the pickler, gets
        if same_bits(seen, new) and not same_bits(seen, change.old):
            self._write("effective", number, fault, side=fault.side, digest=digest(seen), instead_of=digest(change.old))
        return result

    def _draw(self, number: int, purpose: str, below: int) -> int:
        """Draw by the plan's seed, the call and what is done to it. In a plan of what fired, or a smaller plan, the
        fault has another number; faults that do the same to one call are told apart by their order."""
        envelope, site = self._envelope, str(self._envelope.faults[number].site)
        own = _deed(envelope.faults[number])
        before = sum(n < number and _deed(fault) == own for n, fault in envelope.faults.items())
        call = f"{envelope.caller} {site} {envelope.counts[site]}"
        text = f"{envelope.seed}\0{own}\0{before}\0{call}\0{purpose}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % below


def _deed(fault: Fault) -> str:
    return f"{fault.kind} {fault.site} {fault.side} {fault.change}"
