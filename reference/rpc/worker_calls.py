"""Calls of asynchronous workers: count each once, even if it comes twice, keep their order, and name the silent."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from reference.rpc.waiting import Liveness, ParticipantSilent, silence
from reference.training.worker_order import PULL, PUSH, Event


class MissingWorker(TimeoutError):
    """The server gave up on workers that sent nothing for the case's timeout. Names them."""


class WorkerCalls(Liveness):
    """Counts the calls of all workers, in several RPC threads; `wait_for_all` runs in the role's own thread."""

    def __init__(self, workers: Sequence[str], steps: int, timeout: float) -> None:
        """``steps``: the number of gradients that each worker pushes; ``timeout``: seconds of silence."""
        self.steps = steps
        self.order: list[Event] = []
        self.pushed = dict.fromkeys(workers, 0)
        self._last = {(kind, worker): 0 for kind in (PULL, PUSH) for worker in workers}
        self._done: dict[str, torch.futures.Future[None]] = {worker: torch.futures.Future() for worker in workers}
        super().__init__(workers, timeout)

    def count(self, kind: int, worker: str, number: int) -> bool:
        """Count a worker's ``number``-th call of this kind, from 1; False if it, or a later one, was counted before.

        Raises:
            ValueError: the worker is unknown.
        """
        if worker not in self.names:
            raise ValueError(f"unknown worker {worker!r}, wanted one of {', '.join(self.names)}")
        rank = self.names.index(worker)
        self.heartbeat(worker)
        with self._lock:
            if number <= self._last[kind, worker]:
                return False
            self._last[kind, worker] = number
            self.order.append((kind, rank))
            self.pushed[worker] += kind == PUSH
            last = kind == PUSH and self.pushed[worker] == self.steps
        if last:
            self._done[worker].set_result(None)
        return True

    def wait_for_all(self) -> None:
        """Return once every worker has pushed all its gradients.

        Raises:
            MissingWorker: a worker that has more to push was silent for too long.
        """
        try:
            self.gather(self._done)
        except ParticipantSilent:
            told = [f"{name} (sent {self.pushed[name]} of {self.steps})" for name in self.silent]
            raise MissingWorker(silence(self.timeout, told)) from None
