"""The gate: the healthy code passes, and every mutant is killed by a test."""

from __future__ import annotations

import math
import os
import queue
import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from tests.mutants.checkout import copied, copied_again, folder_of_copies, written
from tests.mutants.mutant import Bug, Mutant, Stale
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


def control(root: Path, killers: Sequence[str], workers: int = WORKERS) -> float:
    """Run the killers on the healthy code and return the seconds that took. Raises Unhealthy."""
    begun = time.monotonic()
    tests = list(dict.fromkeys(killers))
    # Dealt out in turn: killers of one file, which often take equally long, go to different workers.
    shares = [share for share in (tests[worker::workers] for worker in range(workers)) if share]
    healthy = [Mutant("none", (), tuple(share), "no mistake", hangs=True) for share in shares]
    with closing(trials(root, healthy, workers, extent=HEALTHY)) as found:
        for _, trial in found:
            if trial.verdict != "survived":
                why = ", ".join(trial.failed) or trial.said[-3000:]
                raise Unhealthy(f"killers fail without any bug: {why}")
            if trial.skipped:
                raise Unhealthy(f"killers are skipped here: {', '.join(trial.skipped)}")
    return time.monotonic() - begun


def trials(
    root: Path,
    bugs: Sequence[Bug],
    workers: int = WORKERS,
    seconds: float = math.inf,
    extent: Extent = FIRST_FAILURE,
) -> Generator[tuple[Bug, Trial], None, None]:
    """Try the bugs, several at a time, and yield each with its trial. After ``seconds`` no further trial begins.

    Raises Unhealthy.
    """
    if not bugs:
        return
    due = time.monotonic() + seconds
    killers = dict.fromkeys(test for each in bugs for test in each.killers)
    # An interrupt ends first the processes, then the threads, whose trials fail by that and end what they have started,
    # and then the folder of all copies.
    with (
        folder_of_copies() as folder,
        copied(root, folder) as original,
        _threads(workers) as pool,
        _threads(WAITING) as waiting_pool,
        _preforked(workers + WAITING) as idle,
        _collected(idle, original, list(killers)),
    ):
        running = {
            (waiting_pool if each.slow else pool).submit(_try, due, idle, original, each, extent): each for each in bugs
        }
        for future in as_completed(running):
            trial = future.result()
            if trial is not None:
                yield running[future], trial


PreforkedPytests = queue.SimpleQueue[PreforkedPytest]


@contextmanager
def _threads(count: int) -> Iterator[ThreadPoolExecutor]:
    pool = ThreadPoolExecutor(count)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _preforked(count: int) -> Iterator[PreforkedPytests]:
    """As many preforked pytests as there are threads, of which each thread takes one at a time."""
    with preforked(count, PRELOADED) as made:
        idle: PreforkedPytests = queue.SimpleQueue()
        for each in made:
            idle.put(each)
        yield idle


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


def _try(due: float, idle: PreforkedPytests, original: Path, bug: Bug, extent: Extent) -> Trial | None:
    """Plant a bug in a copy and run its tests there; None if the time is up."""
    if time.monotonic() >= due:
        return None
    with copied_again(original) as place:
        try:
            bug.plant(place)
        except Stale as error:
            return Trial("stale", said=str(error))
        preforked = idle.get()
        try:
            trial = tried(preforked, place, bug.killers, extent)
        finally:
            idle.put(preforked)
    if trial.hung and not bug.hangs:  # a slow machine could cause that, too
        return replace(trial, verdict="broken", said=f"a test hung, which is not expected\n{trial.said}")
    return trial
