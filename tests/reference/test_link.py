"""A role's values: the same bits, dtype, shape and structure, in whichever pieces their bytes arrive."""

from __future__ import annotations

import copyreg
import math
import os
import pickle
import signal
import struct
import subprocess
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from multiprocessing import Pipe
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from reference.outcome import PeerLost, Returned
from reference.world import link
from reference.world.link import Link, Messages, Phase, first_frame


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


FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
OTHERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool, torch.complex64]

LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda t: t,
    "transposed": lambda t: t.t() if t.dim() == 2 else t,
    "every second": lambda t: t[::2] if t.dim() else t,
    "from the second": lambda t: t[1:] if t.dim() else t,
    "expanded": lambda t: t.unsqueeze(0).expand(3, *t.shape),
}


def bytes_of(tensor: torch.Tensor) -> bytes:
    plain = tensor.detach().resolve_conj().resolve_neg().reshape(-1).clone(memory_format=torch.contiguous_format)
    return plain.view(torch.uint8).numpy().tobytes()


def same(a: Any, b: Any) -> bool:
    """Equal in type, structure and every bit."""
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        form = (a.dtype, a.shape, a.requires_grad, a.layout, a.device)
        return form == (b.dtype, b.shape, b.requires_grad, b.layout, b.device) and bytes_of(a) == bytes_of(b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    """Any dtype, zero to two dimensions, maybe empty, any bits (NaN too), any layout, maybe with gradients."""
    dtype = draw(st.sampled_from([*FLOATS, *OTHERS]))
    shape = draw(st.lists(st.integers(0, 3), max_size=2))
    size = math.prod(shape) * dtype.itemsize
    raw = draw(st.binary(min_size=size, max_size=size))
    if dtype is torch.bool:
        raw = bytes(byte & 1 for byte in raw)
    flat = torch.frombuffer(bytearray(raw), dtype=torch.uint8) if size else torch.empty(0, dtype=torch.uint8)
    tensor = flat.clone().view(dtype).reshape(shape)
    tensor = LAYOUTS[draw(st.sampled_from(sorted(LAYOUTS)))](tensor)
    if dtype.is_floating_point and draw(st.booleans()):
        tensor = tensor.detach().requires_grad_()
    return tensor


plain = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5) | st.binary(max_size=5)
)
nested = st.recursive(
    tensors() | plain,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | st.tuples(inner)
        | st.tuples(inner, inner)
    ),
    max_leaves=6,
)


def arrived_in_parts(value: object) -> Any:
    """The value after it was sent in parts, as a launcher receives them."""
    rest, *large = map(bytearray, link.parts(value))
    return link.loads(rest, buffers=large)


@settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.too_slow])
@given(nested, st.sampled_from([1, 8, link.LARGE]))
@example([torch.tensor([1 + 2j]), torch.tensor([1 + 2j]).conj(), torch.tensor([1 + 2j]).conj().imag], 1)
@example({"weight": torch.nn.Parameter(torch.tensor([1.0, -0.0]))}, 1)
def test_containers_round_trip_whole_and_in_parts(value: object, large: int) -> None:
    assert same(link.loads(link.dumps(value)), value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(link, "LARGE", large)
        assert same(arrived_in_parts(value), value)


def test_large_arrays_are_parts_that_are_not_copied() -> None:
    tensor, small = torch.arange(link.LARGE // 4, dtype=torch.float32), torch.ones(2)
    rest, *large = link.parts([small, tensor, np.arange(link.LARGE, dtype=np.int8)])
    assert [len(each) for each in large] == [link.LARGE, link.LARGE]
    assert len(rest) < 1000
    assert np.shares_memory(np.asarray(large[0]), tensor.numpy())


def test_a_large_array_that_arrives_is_the_part_and_writable() -> None:
    rest, large = map(bytearray, link.parts(torch.zeros(link.LARGE, dtype=torch.int8)))
    arrived = link.loads(rest, buffers=[large])
    arrived[1] = 7
    assert large[:3] == b"\0\7\0"


def test_arrays_that_cannot_be_written_stay_so_in_parts() -> None:
    array = np.arange(link.LARGE, dtype=np.int8).reshape(2, -1).T
    array.flags.writeable = False
    arrived = arrived_in_parts(array)
    assert arrived.flags.writeable is False
    assert arrived.flags.f_contiguous is True
    assert np.array_equal(arrived, array)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool], ids=str)
def test_what_arrives_is_writable_and_nobody_elses(dtype: torch.dtype) -> None:
    """The bytes are a copy: multiprocessing would send a reference to the sender's memory."""
    sent = torch.ones(3, dtype=dtype)
    content = link.dumps(sent)
    sent.zero_()
    arrived = link.loads(content)
    arrived[0] = 0
    assert arrived.tolist() == [0, 1, 1]


def test_one_tensor_sent_twice_is_one_tensor() -> None:
    tensor = torch.ones(2)
    first, second = link.loads(link.dumps([tensor, tensor]))
    assert first is second
    assert first.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_view_brings_its_own_elements_only(requires_grad: bool) -> None:
    content = link.dumps(torch.ones(1_000_000)[:2].requires_grad_(requires_grad))
    assert len(content) < 1000
    assert link.loads(content).tolist() == [1.0, 1.0]


@pytest.mark.filterwarnings("ignore:.* deprecated")
@pytest.mark.parametrize(
    "changed",
    [torch.Tensor.to_sparse, partial(torch.quantize_per_tensor, scale=0.5, zero_point=1, dtype=torch.qint8)],
    ids=["sparse", "quantized"],
)
def test_a_tensor_that_numpy_cannot_hold_round_trips(changed: Callable[[torch.Tensor], torch.Tensor]) -> None:
    tensor = changed(torch.eye(2))
    assert str(link.loads(link.dumps(tensor))) == str(tensor)


def test_other_pickles_are_not_affected() -> None:
    """The plain-array form is this module's own: elsewhere tensors are pickled as torch does it."""
    assert torch.Tensor not in copyreg.dispatch_table
    assert b"reference.world.link" not in pickle.dumps(torch.ones(2))
    assert b"reference.world.link" in link.dumps(torch.ones(2))


def test_a_role_that_plays_when_it_hears_of_a_loss_raises_it_in_its_next_phase() -> None:
    ours, theirs = Pipe()
    with ours, theirs:
        role = Link(ours, os.getpid())
        role.enter(Phase.RUNNING)
        role._hear_of_peer_death("b was killed by SIGKILL")
        with pytest.raises(PeerLost, match=r"^b was killed by SIGKILL$"):
            role.enter(Phase.FINISHED)


def test_a_role_that_has_reported_its_end_says_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "_exit", lambda status: pytest.fail("it has ended itself"))
    ours, theirs = Pipe()
    with ours, theirs:
        role = Link(ours, os.getpid())
        role.end(Returned(7))
        role._hear_of_peer_death("b was killed by SIGKILL")
        assert link.loads(theirs.recv_bytes()) == (0, "ended", Returned(7))
        assert not theirs.poll()


def test_a_role_whose_launcher_has_ended_dies_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The launcher was killed after it had asked for this role."""
    launcher = subprocess.Popen(["true"])
    launcher.wait()
    killed = list[tuple[int, int]]()
    monkeypatch.setattr(os, "killpg", lambda group, number: killed.append((group, number)))
    ours, theirs = Pipe()
    with ours, theirs:
        Link(ours, launcher.pid)
    assert killed == [(0, signal.SIGKILL)]


@pytest.mark.parametrize("use", [Link._listen, partial(Link.send, kind="here")], ids=["listens", "sends"])
def test_a_role_whose_launcher_closes_the_pipe_dies_with_its_processes(
    use: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(group: int, number: int) -> None:
        raise SystemExit(f"signal {number} to group {group}")

    monkeypatch.setattr(os, "killpg", end)
    ours, theirs = Pipe()
    theirs.close()
    with ours, pytest.raises(SystemExit, match=r"^signal 9 to group 0$"):
        use(Link(ours, os.getpid()))
