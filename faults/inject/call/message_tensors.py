"""Find the tensors of a message, in the order in which RPC's pickler sends them, and exchange one of them."""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from typing import Any

import torch
from torch.distributed.rpc import PyRRef  # type: ignore[attr-defined]
from torch.distributed.rpc.internal import _internal_rpc_pickler


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
