"""Force the order in which trainers' reports execute on the server, without sleeps."""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from typing import Any

import torch.distributed.rpc as rpc

from reference.batch_parameter_server import BatchUpdateParameterServer


class ReportOrder:
    """Lets trainers enter the server's method in a given order, the same in every round."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.order: Sequence[str] = ()
        self.turn = 0

    def set(self, order: Sequence[str]) -> None:
        with self.changed:
            self.order, self.turn = order, 0

    def enter(self, trainer: str, seconds: float = 20) -> None:
        with self.changed:
            if not self.changed.wait_for(lambda: self.order[self.turn % len(self.order)] == trainer, seconds):
                raise TimeoutError(f"{trainer} waited {seconds} s for its turn")

    def leave(self) -> None:
        with self.changed:
            self.turn += 1
            self.changed.notify_all()


report_order = ReportOrder()


def install(role: str) -> None:
    """Make trainers wait for their turn before the server's method. To be used as a ``before``, in every process."""
    original: Any = BatchUpdateParameterServer.update_and_fetch_model

    @functools.wraps(original)
    def in_turn(ps_rref: Any, trainer: str, *report: Any) -> Any:
        report_order.enter(trainer)
        try:
            return original(ps_rref, trainer, *report)
        finally:
            report_order.leave()

    wrapped = rpc.functions.async_execution(in_turn)
    BatchUpdateParameterServer.update_and_fetch_model = staticmethod(wrapped)  # type: ignore[method-assign]


def set_order(order: Sequence[str]) -> None:
    """Set the order of the trainers. To be executed on ps."""
    report_order.set(order)
