"""The gate: the healthy code passes, every mutant is killed by a test, and every promise has killed one."""

from __future__ import annotations

import os
import queue
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tests.mutants.checkout import copied
from tests.mutants.mutant import Mutant, Stale
from tests.mutants.trial import PRELOADED, Nursery, Trial, tried

# Two more than cores, because many killers only wait for something that a bug has lost.
WORKERS = 2 + min(6, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1)


class Unhealthy(RuntimeError):
    """Some killers fail on the healthy code, so planting bugs would prove nothing."""


@dataclass(frozen=True)
class Result:
    """The result of trying one mutant."""

    mutant: Mutant
    trial: Trial

    @property
    def killed(self) -> bool:
        return self.trial.verdict == "killed"


def control(root: Path, killers: Sequence[str], workers: int = WORKERS) -> float:
    """Run the killers on the healthy code and return the seconds that took. Raises Unhealthy."""
    begun = time.monotonic()
    tests = list(dict.fromkeys(killers))
    # Dealt out in turn: killers of one file, which often take equally long, go to different workers.
    shares = [share for share in (tests[worker::workers] for worker in range(workers)) if share]
    with _nurseries(workers) as (pool, nurseries):
        for trial in pool.map(partial(_on_copy, nurseries, root), shares):
            if trial.verdict != "survived":
                why = ", ".join(trial.failed) or trial.said[-3000:]
                raise Unhealthy(f"killers fail without any bug: {why}")
            if trial.skipped:
                raise Unhealthy(f"killers are skipped here: {', '.join(trial.skipped)}")
    return time.monotonic() - begun


def trials(root: Path, mutants: Sequence[Mutant], workers: int = WORKERS) -> Iterator[Result]:
    """Try all mutants, several at a time, and yield results as they end. Those that hang until their limit go first."""
    ordered = sorted(mutants, key=lambda each: not each.hangs)
    with _nurseries(workers) as (pool, nurseries):
        running: dict[Future[Trial], Mutant] = {
            pool.submit(_on_copy, nurseries, root, each.killers, each): each for each in ordered
        }
        for future in as_completed(running):
            yield Result(running[future], future.result())


Nurseries = queue.SimpleQueue[Nursery]


@contextmanager
def _nurseries(workers: int) -> Iterator[tuple[ThreadPoolExecutor, Nurseries]]:
    """Threads, and as many nurseries, of which each takes one for a while."""
    made = [Nursery(PRELOADED) for _ in range(workers)]
    free: Nurseries = queue.SimpleQueue()
    for nursery in made:
        free.put(nursery)
    pool = ThreadPoolExecutor(workers)
    try:
        yield pool, free
    finally:
        pool.shutdown(cancel_futures=True)
        for nursery in made:
            nursery.close()


def _on_copy(nurseries: Nurseries, root: Path, tests: Sequence[str], mutant: Mutant | None = None) -> Trial:
    """Run the tests on a copy of the healthy code; or, with a bug planted, until the first test fails."""
    with copied(root) as place:
        try:
            if mutant is not None:
                mutant.plant(place)
        except Stale as error:
            return Trial("stale", said=str(error))
        nursery = nurseries.get()
        try:
            trial = tried(nursery, place, tests, all_of_them=mutant is None)
        finally:
            nurseries.put(nursery)
    if mutant is not None and trial.hung and not mutant.hangs:  # a slow machine could cause that, too
        return replace(trial, verdict="broken", said=f"a test hung, which is not expected\n{trial.said}")
    return trial


@dataclass(frozen=True)
class Promise:
    """A property that must always hold. ``broken_in``: whether a trial shows that it failed."""

    name: str
    broken_in: Callable[[Trial], bool]


def unproven(promises: Iterable[Promise], results: Sequence[Result]) -> list[str]:
    """The promises that have killed no mutant."""
    killed = [result.trial for result in results if result.killed]
    return [promise.name for promise in promises if not any(promise.broken_in(trial) for trial in killed)]
