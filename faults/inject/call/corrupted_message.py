"""Corrupt a message at its callee: the request before it executes, or the reply before it is sent."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import torch

from faults.inject.call.corruption import Corruption, NothingToCorrupt, corrupt, digest, same_bits
from faults.inject.call.envelope import Envelope
from faults.inject.call.message_tensors import MessageTensors
from faults.plan.plan import Fault

# The tensors of the last call that each fault and caller has sent, for faults that exchange tensors.
Earlier = dict[tuple[int, str], Sequence[torch.Tensor]]


class MessageCorrupter:
    """Corrupts the messages of one call. ``write``: writes an event of a fault to the callee's ledger; ``call``:
    identifies the call for the draws, such as 'a shop:pay 2'."""

    def __init__(self, write: Callable[..., None], envelope: Envelope, call: str, earlier: Earlier) -> None:
        self._write, self._envelope, self._call, self._earlier = write, envelope, call, earlier
        self._caller = envelope.caller

    def request(self, number: int, fault: Fault, function: partial[Any]) -> partial[Any]:
        """Return the function with its arguments, in which one tensor is changed."""
        message = (function.func, function.args, function.keywords)
        called, args, kwargs = self.message(number, fault, message)
        return partial(called, *args, **kwargs)

    def message(self, number: int, fault: Fault, message: Any) -> Any:
        """Return the message with one tensor changed; the message itself if it has none that can be changed."""
        try:
            found = MessageTensors(message)
            earlier = self._earlier.get((number, self._caller))
            self._keep(number, fault, found.tensors)
            change = corrupt(found.tensors, str(fault.change), earlier, partial(self._draw, number))
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

    def watch(self, number: int, fault: Fault, message: Any) -> None:
        """Keep the tensors of a call that the fault does not hit."""
        with suppress(Exception):  # the program's own error, which RPC will tell
            self._keep(number, fault, MessageTensors(message).tensors)

    def _keep(self, number: int, fault: Fault, tensors: Sequence[torch.Tensor]) -> None:
        if fault.change == "other":  # copies, because the program may change its own
            self._earlier[number, self._caller] = [tensor.detach().clone() for tensor in tensors]

    def _draw(self, number: int, purpose: str, below: int) -> int:
        """Draw by the plan's seed, the call and what is done to it. The fault's number in the plan may differ in a
        replay; faults that do the same to one call are told apart by their order."""
        own = _deed(self._envelope.faults[number])
        before = sum(n < number and _deed(fault) == own for n, fault in self._envelope.faults.items())
        text = f"{self._envelope.seed}\0{own}\0{before}\0{self._call}\0{purpose}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % below


def _deed(fault: Fault) -> str:
    return f"{fault.kind} {fault.site} {fault.side} {fault.change}"
