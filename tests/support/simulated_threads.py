"""Threads in simulated time: one runs at a time, waits cost nothing, and the test says when time passes.

Modules under test get this simulation's `threading`, `time` and `queue`, so the same steps give the same run on every
machine. What blocks elsewhere, such as a call over RPC, has to wait by `Simulation.wait`.
"""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any, Self

import pytest

# Real seconds after which a thread that runs, and neither waits nor ends, is a bug.
STUCK = 60.0


class Ended(BaseException):
    """Ends a thread of a simulation that is over, or of a simulated process that was killed."""


class Task:
    """A thread of a simulation. ``owner``: whose it is, inherited from the thread that started it."""

    def __init__(self, run: Callable[[], object], owner: str) -> None:
        self.owner = owner
        self.value: Any = None
        self.error: BaseException | None = None
        self.done = self.killed = False
        self.until: Callable[[], bool] = lambda: True
        self.due: float | None = None
        self.go, self.back = threading.Semaphore(0), threading.Semaphore(0)
        threading.Thread(target=self._play, args=(run,), daemon=True).start()

    def _play(self, run: Callable[[], object]) -> None:
        self.go.acquire()
        try:
            if not self.killed:
                self.value = run()
        except BaseException as error:
            self.error = error
        self.done = True
        self.back.release()

    def resume(self) -> None:
        """Let it run until it waits or ends."""
        self.go.release()
        assert self.back.acquire(timeout=STUCK), "a thread neither waits nor ends"


class Simulation:
    """The threads, and the clock ``now``. Close it, so that no thread is left."""

    def __init__(self) -> None:
        self.now = 0.0
        self.current: Task | None = None
        self._tasks: list[Task] = []

    @contextmanager
    def of(self, *modules: ModuleType, **names: object) -> Iterator[Self]:
        """Give modules this simulation, and ``names`` in place of their own; close it after the block."""
        mine = {"threading": _threading(self), "time": _time(self), "queue": _queue(self), **names}
        with pytest.MonkeyPatch.context() as patch:
            for module in modules:
                for name in mine.keys() & vars(module).keys():
                    patch.setattr(module, name, mine[name])
            try:
                yield self
            finally:
                self.kill(*{task.owner for task in self._tasks})

    @property
    def owner(self) -> str:
        """Whose thread this is; empty in the test's own."""
        return self.current.owner if self.current else ""

    def start(self, run: Callable[[], object], owner: str | None = None) -> Task:
        """Start a thread. It runs when the others wait: at the latest in `settle`."""
        self._tasks.append(Task(run, self.owner if owner is None else owner))
        return self._tasks[-1]

    def wait(self, until: Callable[[], bool], seconds: float | None = None) -> bool:
        """Wait in a simulated thread; False if ``seconds`` passed before."""
        task = self.current
        if task is None:
            assert until(), "the test's own thread would wait forever"
            return True
        if not until() and (seconds is None or seconds > 0):
            task.until, task.due = until, None if seconds is None else self.now + seconds
            task.back.release()
            task.go.acquire()
            if task.killed:
                raise Ended
        return until()

    def run(self, run: Callable[[], object], owner: str) -> Task:
        """Run it in a thread until it waits or has ended, and then the others."""
        task = self.start(run, owner)
        self.settle()
        return task

    def settle(self) -> None:
        """Let threads run, in the order in which they began, until each waits or has ended."""
        assert self.current is None
        while task := next((each for each in self._tasks if self._can_run(each)), None):
            self._resume(task)

    def pass_time(self, seconds: float) -> None:
        """Let time pass; every wait ends at its own time."""
        self.settle()
        end = self.now + seconds
        while self.next_due() < end:
            self.now = self.next_due()
            self.settle()
        self.now = end
        self.settle()

    def next_due(self) -> float:
        """Return when the next wait ends by itself."""
        return min((task.due for task in self._tasks if task.due is not None), default=math.inf)

    def kill(self, *owners: str) -> None:
        """End all threads of these, wherever they wait."""
        for task in [each for each in self._tasks if each.owner in owners]:
            task.killed = True
            while not task.done:
                self._resume(task)
        self._tasks = [each for each in self._tasks if not each.done]

    def _can_run(self, task: Task) -> bool:
        return not task.done and (task.until() or (task.due is not None and task.due <= self.now))

    def _resume(self, task: Task) -> None:
        self.current, task.until, task.due = task, lambda: True, None
        try:
            task.resume()
        finally:
            self.current = None
        if task.done:
            self._tasks.remove(task)


def _time(simulation: Simulation) -> Any:
    return SimpleNamespace(**vars(time) | {"monotonic": lambda: simulation.now})


def _queue(simulation: Simulation) -> Any:
    class SimpleQueue:
        def __init__(self) -> None:
            self.items: list[Any] = []

        def __class_getitem__(cls, _: object) -> object:
            return cls

        def put(self, item: Any) -> None:
            self.items.append(item)

        def get(self, timeout: float | None = None) -> Any:
            if not simulation.wait(lambda: bool(self.items), timeout):
                raise queue.Empty
            return self.items.pop(0)

    return SimpleNamespace(**vars(queue) | {"SimpleQueue": SimpleQueue})


def _threading(simulation: Simulation) -> Any:
    class Lock:
        def __init__(self) -> None:
            self.held = False

        def __enter__(self) -> None:
            simulation.wait(lambda: not self.held)
            self.held = True

        def __exit__(self, *_: object) -> None:
            self.held = False

    class Condition:
        def __init__(self, lock: Any = None) -> None:
            self.lock = Lock() if lock is None else lock
            self.waiting: list[object] = []

        def __enter__(self) -> None:
            self.lock.__enter__()

        def __exit__(self, *_: object) -> None:
            self.lock.__exit__()

        def wait(self, timeout: float | None = None) -> bool:
            own = object()
            self.waiting.append(own)
            self.lock.__exit__()
            notified = simulation.wait(lambda: own not in self.waiting, timeout)
            self.waiting = [each for each in self.waiting if each is not own]
            self.lock.__enter__()
            return notified

        def notify(self, n: int = 1) -> None:
            del self.waiting[:n]

    class Event:
        def __init__(self) -> None:
            self.is_set_now = False

        def set(self) -> None:
            self.is_set_now = True

        def is_set(self) -> bool:
            return self.is_set_now

        def wait(self, timeout: float | None = None) -> bool:
            return simulation.wait(self.is_set, timeout)

    class Thread:
        def __init__(self, target: Callable[..., object], args: Any = (), **_: object) -> None:
            self.run = lambda: target(*args)

        def start(self) -> None:
            simulation.start(self.run)

    mine = {"Lock": Lock, "Condition": Condition, "Event": Event, "Thread": Thread}
    return SimpleNamespace(**vars(threading) | mine)
