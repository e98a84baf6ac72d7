"""Messages are the same in whichever pieces their bytes arrive."""

from __future__ import annotations

import os
import struct
from itertools import pairwise
from multiprocessing import Pipe

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference.world.link import Messages, first_frame


def framed(frame: bytes) -> bytes:
    """The form of the documentation of `multiprocessing`, which has none for a length: 4 bytes, big-endian."""
    return struct.pack("!i", len(frame)) + frame


def stream(attached: list[list[bytes]]) -> bytes:
    """A message for each list of attached frames, named by its number."""
    frames = [
        framed(frame)
        for number, each in enumerate(attached)
        for frame in (first_frame("answer", number, attached=len(each)), *each)
    ]
    return b"".join(frames)


@given(st.lists(st.lists(st.binary(max_size=5), max_size=3), max_size=4), st.lists(st.integers(0, 400)))
def test_messages_arrive_in_any_pieces(attached: list[list[bytes]], cuts: list[int]) -> None:
    sent, received, messages = stream(attached), list[object](), Messages()
    bounds = [0, *sorted(min(cut, len(sent)) for cut in cuts), len(sent)]
    for begin, end in pairwise(bounds):
        received += messages.add(sent[begin:end])
    assert received == [(["answer", number], each) for number, each in enumerate(attached)]


def test_a_message_is_whole_only_with_its_last_attached_frame() -> None:
    messages, sent = Messages(), stream([[b"one", b"two"]])
    assert list(messages.add(sent[:-1])) == []
    assert list(messages.add(sent[-1:])) == [(["answer", 0], [bytearray(b"one"), bytearray(b"two")])]


@pytest.mark.parametrize("size", [0, 1, 16_383, 16_384, 100_000])
def test_what_a_connection_sends_is_read(size: int) -> None:
    """The size of 16 KiB is where `multiprocessing` begins to send the length by itself."""
    ours, theirs = Pipe()
    with ours, theirs:
        ours.send_bytes(first_frame("value", attached=1))
        ours.send_bytes(memoryview(bytes(size)))
        messages = Messages()
        received: list[object] = []
        while not received:
            assert theirs.poll(10)
            received += messages.add(os.read(theirs.fileno(), 1000))
    assert received == [(["value"], [bytes(size)])]
