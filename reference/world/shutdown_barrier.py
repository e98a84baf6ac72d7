"""Let ranks without a launcher wait for each other before the common shutdown, and tell them if one dies meanwhile.

``rpc.shutdown()`` by itself waits for a dead peer until its limit. Here the first rank has one call open to every
other, which fails when that one's process ends; and every rank that is done has one open to the first.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial

import torch
import torch.distributed.rpc as rpc

from reference.outcome import PeerLost

# Seconds in which the first rank hears of a death that somebody else has noticed.
NEWS_SECONDS = 1.0

Done = torch.futures.Future[str | None]  # None, or who was lost


class ShutdownBarrier:
    """On the first rank: who has not finished, and who was lost."""

    def __init__(self, names: Sequence[str]) -> None:
        self.lock = threading.Lock()
        self.missing = set(names)
        self.lost: str | None = None
        self.ended: Done = torch.futures.Future()
        self.known = threading.Event()

    def watch(self, name: str) -> None:
        """Hear of it when the process of ``name`` ends. A stopped one, or a cable pulled out, is not heard."""
        rpc.rpc_async(name, until_released, timeout=0).add_done_callback(partial(self._heard, name))

    def finished(self, name: str) -> Done:
        """``name`` has finished; the future ends when all have, or one is lost."""
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
        """End everybody's wait, unless all had finished or somebody was lost before."""
        with self.lock:
            first = bool(self.missing) and self.lost is None
            if first:
                self.lost = f"{name} is gone: {reason}"
                self.known.set()
        if first:
            self.ended.set_result(self.lost)


# On the first rank; on every rank, what ends when it need not be watched any longer.
_barrier: list[ShutdownBarrier] = []
_released: torch.futures.Future[None] = torch.futures.Future()


@rpc.functions.async_execution  # type: ignore[untyped-decorator]
def until_released() -> torch.futures.Future[None]:
    """Runs on every rank but the first, for its whole life, and occupies no thread."""
    return _released


@rpc.functions.async_execution  # type: ignore[untyped-decorator]
def finished(name: str) -> torch.futures.Future[str | None]:
    """Runs on the first rank."""
    return _barrier[0].finished(name)


def who_is_lost() -> str | None:
    """Runs on the first rank, which hears of a death at about the time when others fail of it."""
    _barrier[0].known.wait(NEWS_SECONDS)
    return _barrier[0].lost


def _blame(name: str, names: Sequence[str], error: RuntimeError) -> None:
    """Raises PeerLost if a call failed since a rank ended: the call's own error does not say which."""
    first = names[0]
    if name != first:
        try:
            lost = rpc.rpc_sync(first, who_is_lost, timeout=2 * NEWS_SECONDS)
        except RuntimeError as gone:
            raise PeerLost(f"{first} is gone: {(str(gone).splitlines() or [''])[0]}") from error
    else:
        lost = who_is_lost()
        for other in names[1:]:  # behind the answers to those who wait here: these must be out before this one ends
            with suppress(RuntimeError):
                rpc.rpc_sync(other, bool, timeout=NEWS_SECONDS)
    if lost is not None:
        raise PeerLost(lost) from error


@contextmanager
def wait_for_all_ranks(name: str, names: Sequence[str], deadline: float) -> Iterator[None]:
    """Play a role within this, once RPC is up; afterwards all others have played theirs too.

    Raises:
        PeerLost: a rank ended before it had finished, also if the role failed of that; or not all finished within
            ``deadline`` seconds of this one.
    """
    first = names[0]
    if name == first:
        for other in names[1:]:
            _barrier[0].watch(other)
    try:
        yield
    except RuntimeError as error:
        if type(error) is RuntimeError:  # an RPC's; others say themselves whom they lack
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
    """On every rank before RPC starts: others may arrive as soon as it is up."""
    _barrier[:] = [ShutdownBarrier(names)]
