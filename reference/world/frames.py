"""Read messages out of a stream of bytes, as `multiprocessing.connection.Connection.send_bytes` frames them.

The stream is read piece by piece, because `Connection.recv_bytes` would wait for the rest of a message from a role that
stopped in the middle.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

_SHORT, _LONG = struct.Struct("!i"), struct.Struct("!Q")


class Frames:
    """Collects bytes until they make whole messages."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add(self, chunk: bytes) -> Iterator[bytes]:
        """Yield every message that ``chunk`` completes."""
        self._bytes += chunk
        while (bounds := self._bounds()) is not None and len(self._bytes) >= bounds[1]:
            start, end = bounds
            message = bytes(memoryview(self._bytes)[start:end])
            del self._bytes[:end]
            yield message

    def _bounds(self) -> tuple[int, int] | None:
        """Where the first message begins and ends; None until its length has come: 4 bytes, or -1 and 8 bytes."""
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
