"""Let ranks without a launcher wait for each other before the common shutdown, and tell them if one dies meanwhile.

``rpc.shutdown()`` by itself waits for a dead peer until its timeout. Here the first rank has one call open to every
other rank, which fails when that rank's process ends. Every rank that has finished has one call open to the first rank.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial

import torch
import torch.distributed.rpc as rpc

from reference.outcome import PeerLost

# Seconds in which the first rank hears of a death that another rank has noticed.
NEWS_SECONDS = 1.0

Done = torch.futures.Future[str | None]  # None, or a text that names the lost rank


class ShutdownBarrier:
    """Runs on the first rank: knows which ranks have not finished, and which one was lost."""

    def __init__(self, names: Sequence[str]) -> None:
        self.lock = threading.Lock()
        self.missing = set(names)
        self.lost: str | None = None
        self.ended: Done = torch.futures.Future()
        self.known = threading.Event()

    def watch(self, name: str) -> None:
        """Notice when the process of ``name`` ends. A stopped process or a cut connection goes unnoticed."""
        rpc.rpc_async(name, until_released, timeout=0).add_done_callback(partial(self._heard, name))

    def finished(self, name: str) -> Done:
        """Note that ``name`` has finished. The returned future completes when all have, or when one is lost."""
        with self.lock:
            self.missing.discard(name)
            last = not self.missing and self.lost is None
        if last:
            self.ended.set_result(None)
        return self.ended

    def _heard(self, name: str, call: torch.futures.Future[None]) -> None:
        try:
            call.value()
        except Exception as error:
            self.lose(name, (str(error).splitlines() or [type(error).__name__])[0])

    def lose(self, name: str, reason: str) -> None:
        """End the wait of all ranks, unless all had finished or a rank was lost before."""
        with self.lock:
            first = bool(self.missing) and self.lost is None
            if first:
                self.lost = f"{name} is gone: {reason}"
                self.known.set()
        if first:
            self.ended.set_result(self.lost)


# `_barrier` is used on the first rank. `_released` completes on every rank once it need not be watched any longer.
_barrier: list[ShutdownBarrier] = []
_released: torch.futures.Future[None] = torch.futures.Future()


@rpc.functions.async_execution  # type: ignore[untyped-decorator]
def until_released() -> torch.futures.Future[None]:
    """Runs on every rank except the first, until that rank is released. It occupies no thread."""
    return _released


@rpc.functions.async_execution  # type: ignore[untyped-decorator]
def finished(name: str) -> torch.futures.Future[str | None]:
    """Runs on the first rank: `ShutdownBarrier.finished`."""
    return _barrier[0].finished(name)


def who_is_lost() -> str | None:
    """Runs on the first rank, which hears of a death at about the time when calls of other ranks fail because of it."""
    _barrier[0].known.wait(NEWS_SECONDS)
    return _barrier[0].lost


def _blame(name: str, names: Sequence[str], error: RuntimeError) -> None:
    """Raises PeerLost if a call failed because a rank ended: the call's own error does not name the rank."""
    first = names[0]
    if name != first:
        try:
            lost = rpc.rpc_sync(first, who_is_lost, timeout=2 * NEWS_SECONDS)
        except RuntimeError as gone:
            raise PeerLost(f"{first} is gone: {(str(gone).splitlines() or [''])[0]}") from error
    else:
        lost = who_is_lost()
        # These calls come after the answers to waiting ranks, which must be sent before this process ends.
        for other in names[1:]:
            with suppress(RuntimeError):
                rpc.rpc_sync(other, bool, timeout=NEWS_SECONDS)
    if lost is not None:
        raise PeerLost(lost) from error


@contextmanager
def wait_for_all_ranks(name: str, names: Sequence[str], deadline: float) -> Iterator[None]:
    """Play a role in this block, once RPC is up. When the block has ended, all other ranks have played theirs, too.

    Raises:
        PeerLost: a rank ended before it had finished, even if this role failed because of that; or not all ranks
            finished within ``deadline`` seconds after this one.
    """
    first = names[0]
    if name == first:
        for other in names[1:]:
            _barrier[0].watch(other)
    try:
        yield
    except RuntimeError as error:
        if type(error) is RuntimeError:  # an RPC failed; other errors name the lost peer themselves
            _blame(name, names, error)
        raise
    try:
        lost = rpc.rpc_sync(first, finished, args=(name,), timeout=deadline)
    except RuntimeError as error:
        raise PeerLost(f"{first} is gone or waits for others: {(str(error).splitlines() or [''])[0]}") from error
    if lost is not None:
        raise PeerLost(lost)
    _released.set_result(None)


def prepare(names: Sequence[str]) -> None:
    """Call this on every rank before RPC starts, because other ranks may call as soon as it is up."""
    _barrier[:] = [ShutdownBarrier(names)]
