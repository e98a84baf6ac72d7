"""Calls of asynchronous workers: count each once, even if it comes twice, keep their order, and name the silent."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import torch

from reference.rpc.waiting import Liveness, ParticipantFailed, ParticipantSilent, silence
from reference.training.worker_order import PULL, PUSH, Event, as_tensors

Meeting = torch.futures.Future[ParticipantFailed | None]


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
        # The future of each that has met, and what it was given: an exception that is set there arrives as a value.
        self._met: dict[str, tuple[Meeting, torch.futures.Future[None]]] = {}
        self._parted = 0  # the step after which all have met
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

    def expected(self) -> list[str]:
        """Return the workers that have more to push, and do not wait for others."""
        return [name for name in super().expected() if name not in self._met]

    def meet(self, worker: str, step: int) -> tuple[torch.futures.Future[None], bool]:
        """Let a worker wait for all others after a step. Returns a future of the meeting, and whether this is the last.

        A call that comes twice gets the future of the first one, or one that is complete if the meeting has ended.

        Raises:
            ParticipantFailed: the work has failed. Those that have met get a RuntimeError that says so.
        """
        with self._lock:
            if self.reason is not None:
                raise ParticipantFailed(self.reason)
            if worker in self._met:
                return self._met[worker][1], False
            met: Meeting = torch.futures.Future()
            future = met.then(_raise_failure)
            if step <= self._parted:
                met.set_result(None)
                return future, False
            self._met[worker] = met, future
            return future, len(self._met) == len(self.names)

    def part(self, step: int) -> None:
        """End the meeting after a step. Call it without a lock, because it makes all replies."""
        self._parted = step
        for future in self._end_meeting():
            future.set_result(None)

    def fail(self, reason: str) -> None:
        """End every wait with this reason. Call it without a lock, because it makes the replies of those that met.

        The thread that watches ends with the last push, before the last meeting.
        """
        super().fail(reason)
        self.answer()

    def answer(self) -> None:
        for future in self._end_meeting():
            future.set_result(ParticipantFailed(str(self.reason)))

    def _end_meeting(self) -> Sequence[Meeting]:
        with self._lock:
            met, self._met = self._met, {}
            self.last = dict.fromkeys(self.names, time.monotonic())
        return [each for each, _ in met.values()]

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The calls so far, for a checkpoint in which each worker has pushed what it pulled for."""
        return as_tensors(self.order)

    def load_state_dict(self, state_dict: Mapping[str, torch.Tensor]) -> None:
        numbers = dict.fromkeys(self._last, 0)
        for kind, rank in state_dict["events"].tolist():
            worker = self.names[rank]
            numbers[kind, worker] += 1
            self.count(kind, worker, numbers[kind, worker])

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


def _raise_failure(met: Meeting) -> None:
    if failure := met.value():
        raise failure
