"""Read messages out of a stream of bytes, as `multiprocessing.connection.Connection.send_bytes` frames them.

A message is a frame with a pickled tuple, of which the first element says how many frames belong to it and follow.
The stream is read piece by piece, because `Connection.recv_bytes` would wait for the rest of a message from a role that
stopped in the middle.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from reference.world import wire

_SHORT, _LONG = struct.Struct("!i"), struct.Struct("!Q")


def first_frame(kind: str, *content: object, attached: int = 0) -> bytes:
    """Make the first frame of a message to which so many ``attached`` frames belong."""
    return wire.dumps((attached, kind, *content))


class Messages:
    """Collects bytes until they make whole messages."""

    def __init__(self) -> None:
        self._frames = Frames()
        self._wanted = 0
        self._content: list[Any] = []
        self._attached: list[bytearray] = []

    def add(self, chunk: bytes) -> Iterator[tuple[list[Any], list[bytearray]]]:
        """Yield the content and the attached frames of every message that ``chunk`` completes."""
        for frame in self._frames.add(chunk):
            if self._wanted:
                self._attached.append(frame)
                self._wanted -= 1
            else:
                self._wanted, *self._content = wire.loads(frame)
                self._attached = []
            if not self._wanted:
                yield self._content, self._attached


class Frames:
    """Collects bytes until they make whole frames."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add(self, chunk: bytes) -> Iterator[bytearray]:
        """Yield every frame that ``chunk`` completes."""
        self._bytes += chunk
        while (bounds := self._bounds()) is not None and len(self._bytes) >= bounds[1]:
            start, end = bounds
            frame = bytearray(memoryview(self._bytes)[start:end])
            del self._bytes[:end]
            yield frame

    def _bounds(self) -> tuple[int, int] | None:
        """Where the first frame begins and ends; None until its length has come: 4 bytes, or -1 and 8 bytes."""
        if len(self._bytes) < _SHORT.size:
            return None
        (length,) = _SHORT.unpack_from(self._bytes)
        if length >= 0:
            return _SHORT.size, _SHORT.size + length
        start = _SHORT.size + _LONG.size
        if len(self._bytes) < start:
            return None
        (length,) = _LONG.unpack_from(self._bytes, _SHORT.size)
        return start, start + length
