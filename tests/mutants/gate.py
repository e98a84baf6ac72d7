"""The gate: the healthy code passes, and every mutant is killed by a test."""

from __future__ import annotations

import math
import os
import queue
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path

from tests.mutants.checkout import copied, copied_again, folder_of_copies, written
from tests.mutants.mutant import Bug, Stale
from tests.mutants.trial import (
    FIRST_FAILURE,
    HEALTHY,
    PRELOADED,
    Extent,
    PreforkedPytest,
    Trial,
    collect,
    preforked,
    tried,
)

# Two more than cores, because many killers only wait for something that a bug has lost.
WORKERS = 2 + min(6, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1)

# And four for the mutants whose killers wait for a deadline of 10 to 30 s.
WAITING = 4


class Unhealthy(RuntimeError):
    """Planting bugs would prove nothing: killers are missing, fail on the healthy code, or change it."""


@dataclass(frozen=True)
class Result:
    """The result of trying one bug."""

    mutant: Bug
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
    with (
        _copy(root) as original,
        _threads(workers) as pool,
        _preforked(workers) as (idle,),
        _collected(idle, original, tests),
    ):
        for trial in pool.map(partial(_on_copy, idle, original), shares):
            if trial.verdict != "survived":
                why = ", ".join(trial.failed) or trial.said[-3000:]
                raise Unhealthy(f"killers fail without any bug: {why}")
            if trial.skipped:
                raise Unhealthy(f"killers are skipped here: {', '.join(trial.skipped)}")
    return time.monotonic() - begun


def trials(
    root: Path,
    mutants: Sequence[Bug],
    workers: int = WORKERS,
    seconds: float = math.inf,
    extent: Extent = FIRST_FAILURE,
) -> Iterator[Result]:
    """Try the bugs, several at a time, and yield results as they end. After ``seconds`` no further trial begins.

    Raises Unhealthy.
    """
    due = time.monotonic() + seconds
    killers = dict.fromkeys(test for each in mutants for test in each.killers)
    with (
        _copy(root) as original,
        _threads(workers) as pool,
        _threads(WAITING) as waiting_pool,
        _preforked(workers, WAITING) as (idle, waiting_idle),
        _collected(idle, original, list(killers)),
    ):
        running: dict[Future[Trial | None], Bug] = {}
        for each in mutants:
            taken, pytests = (waiting_pool, waiting_idle) if each.slow else (pool, idle)
            running[taken.submit(_in_time, due, pytests, original, each, extent)] = each
        for future in as_completed(running):
            trial = future.result()
            if trial is not None:
                yield Result(running[future], trial)


def _in_time(due: float, idle: PreforkedPytests, original: Path, mutant: Bug, extent: Extent) -> Trial | None:
    return _on_copy(idle, original, mutant.killers, mutant, extent) if time.monotonic() < due else None


PreforkedPytests = queue.SimpleQueue[PreforkedPytest]


@contextmanager
def _copy(root: Path) -> Iterator[Path]:
    """Copy the project, for the whole gate. An interrupt ends first the processes, then the threads, whose trials fail
    by that and end what they have started, and then the folder of all copies."""
    with folder_of_copies() as folder, copied(root, folder) as place:
        yield place


@contextmanager
def _threads(count: int) -> Iterator[ThreadPoolExecutor]:
    pool = ThreadPoolExecutor(count)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _preforked(*counts: int) -> Iterator[list[PreforkedPytests]]:
    """As many preforked pytests as each pool has threads, of which each thread takes one at a time."""
    with preforked(sum(counts), PRELOADED) as made:
        left, free = iter(made), list[PreforkedPytests]()
        for count in counts:
            free.append(queue.SimpleQueue())
            for each in islice(left, count):
                free[-1].put(each)
        yield free


@contextmanager
def _collected(idle: PreforkedPytests, place: Path, tests: Sequence[str]) -> Iterator[None]:
    """Let pytest find the tests in the copy that all others share: compiled once, instead of in every trial.

    Raises:
        Unhealthy: pytest does not find them, or one of them has changed a file of the copy.
    """
    preforked = idle.get()
    try:
        found, said = collect(preforked, place, tests)
    finally:
        idle.put(preforked)
    if not found:
        raise Unhealthy(f"pytest does not find all the killers: {said[-3000:]}")
    before = written(place)
    yield
    if changed := sorted(file for file, _ in written(place).items() ^ before.items()):
        raise Unhealthy(f"tests changed files that all copies share: {', '.join(dict.fromkeys(changed))}")


def _on_copy(
    idle: PreforkedPytests,
    original: Path,
    tests: Sequence[str],
    mutant: Bug | None = None,
    extent: Extent = HEALTHY,
) -> Trial:
    """Run the tests on a copy: of the code as it is, or with a bug planted."""
    with copied_again(original) as place:
        try:
            if mutant is not None:
                mutant.plant(place)
        except Stale as error:
            return Trial("stale", said=str(error))
        preforked = idle.get()
        try:
            trial = tried(preforked, place, tests, extent)
        finally:
            idle.put(preforked)
    if mutant is not None and trial.hung and not mutant.hangs:  # a slow machine could cause that, too
        return replace(trial, verdict="broken", said=f"a test hung, which is not expected\n{trial.said}")
    return trial
