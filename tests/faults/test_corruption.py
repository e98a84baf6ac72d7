"""The changes of one tensor, judged by NumPy, and a message's tensors in the order of RPC's own pickler."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributed.rpc.internal import _internal_rpc_pickler
from torch.futures import Future

from faults.inject.call.corruption import Corruption, MessageTensors, NothingToCorrupt, corrupt, digest, same_bits

ROOT = Path(__file__).parents[2]
DTYPES = (torch.float32, torch.float64, torch.float16, torch.int64, torch.uint8, torch.complex64, torch.bool)


def drawn(**numbers: int) -> Callable[[str, int], int]:
    """Draw the given number for each purpose, or 0."""
    return lambda purpose, below: numbers.get(purpose, 0) % below


def differing_bits(one: torch.Tensor, other: torch.Tensor) -> int:
    raw = [np.frombuffer(each.detach().contiguous().numpy().tobytes(), np.uint8) for each in (one, other)]
    return int(np.unpackbits(raw[0] ^ raw[1]).sum())


def changed(tensor: torch.Tensor, how: str, **numbers: int) -> Corruption:
    return corrupt([tensor], how, drawn(**numbers))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("bit", [0, 7, 13])
def test_one_bit_of_one_element_differs(dtype: torch.dtype, bit: int) -> None:
    old = (torch.arange(6).reshape(2, 3) % 2 + 1).to(dtype)
    before = old.clone()
    change = changed(old, "bit", element=4, bit=bit)
    assert torch.equal(old, before), "the program's own tensor"
    assert differing_bits(old, change.new) == 1
    assert (change.new != old).nonzero().tolist() == [[1, 1]]
    receipt = change.receipt()
    assert receipt["element"] == [1, 1]
    assert receipt["changed"] == 1
    assert receipt["dtype"] == str(dtype)[6:]
    assert receipt["old"] == str(old[1, 1].item())
    assert receipt["new"] == str(change.new[1, 1].item())


def test_nan_and_zeros() -> None:
    tensor = torch.tensor([[1.0, 2.0], [0.0, 4.0]])
    nan = changed(tensor, "nan", element=2)
    assert np.isnan(nan.new.numpy()).tolist() == [[False, False], [True, False]]
    zeros = changed(tensor, "zeros")
    assert zeros.new.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    receipt = zeros.receipt()
    assert receipt["changed"] == 3
    assert receipt["element"] == [0, 0]
    assert receipt["old"] == "1.0"


@pytest.mark.parametrize("value", [0.0, float("nan")])
def test_the_same_bits_as_before_are_no_change(value: float) -> None:
    change = changed(torch.full((3,), value), "zeros" if value == 0 else "nan")
    assert change.receipt()["changed"] == 0
    # Another bit, although the numbers are equal:
    assert changed(torch.tensor([-0.0]), "zeros").receipt()["changed"] == 1


@pytest.mark.parametrize(
    ("tensors", "how", "why"),
    [
        ([], "bit", "wanted a tensor with elements, got no tensor"),
        ([torch.ones(0, 2)], "zeros", r"wanted a tensor with elements, got float32\[0, 2\]"),
        ([torch.ones(2, dtype=torch.int32)], "nan", r"wanted a floating-point tensor with elements, got int32\[2\]"),
        ([torch.ones(2).to_sparse()], "bit", "wanted a tensor with elements"),
        ([torch.ones(2, device="meta")], "bit", "wanted a tensor with elements"),
    ],
)
def test_what_cannot_be_changed_is_told(tensors: list[torch.Tensor], how: str, why: str) -> None:
    with pytest.raises(NothingToCorrupt, match=f"^{why}"):
        corrupt(tensors, how, drawn())


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor, ")
def test_a_quantized_tensor_is_refused() -> None:
    """A change of one bit would end the process by SIGSEGV."""
    with pytest.raises(NothingToCorrupt, match=r"got quint8\[2\]$"):
        changed(torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8), "zeros")


def test_a_tensor_without_such_elements_is_passed_over() -> None:
    integers, floats = torch.ones(2, dtype=torch.int64), torch.ones(2)
    for number in range(4):
        assert corrupt([integers, floats, torch.ones(0)], "nan", drawn(tensor=number)).position == 1
    positions = {corrupt([integers, floats], "bit", drawn(tensor=number)).position for number in range(2)}
    assert positions == {0, 1}


@pytest.mark.parametrize(
    "tensor",
    [torch.tensor(3.0), torch.ones(2, 3).t(), torch.ones(1).expand(4), torch.ones(2, dtype=torch.complex64).conj()],
    ids=["scalar", "transposed", "expanded", "conjugated"],
)
@pytest.mark.parametrize("how", ["bit", "nan", "zeros"])
def test_tensors_of_any_layout_keep_their_form(tensor: torch.Tensor, how: str) -> None:
    before = tensor.clone()
    change = changed(tensor, how, element=1, bit=3)
    assert change.new.shape == tensor.shape
    assert change.new.dtype == tensor.dtype
    assert torch.equal(tensor, before)
    assert change.receipt()["changed"] == (tensor.numel() if how == "zeros" else 1)


def test_gradients_flow_through_a_changed_tensor() -> None:
    leaf = torch.ones(3, requires_grad=True)
    (changed(leaf * 2, "zeros").new * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [2.0, 4.0, 6.0]


@pytest.mark.long
def test_a_first_change_imports_nothing() -> None:
    """It would delay the message: half of torch's modules are imported only when somebody uses them."""
    program = (
        "import sys, torch\n"
        "from faults.inject.call.corruption import corrupt, digest, same_bits\n"
        "before = set(sys.modules)\n"
        "for how in ('bit', 'nan', 'zeros'):\n"
        "    change = corrupt([torch.ones(3, 2)], how, lambda purpose, below: 0)\n"
        "    change.receipt(), digest(change.new), same_bits(change.old, change.new)\n"
        "print(set(sys.modules) - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, cwd=ROOT)
    assert done.stdout.strip() == "set()", done.stdout + done.stderr


def test_a_digest_is_the_beginning_of_the_sha_256_of_the_bytes() -> None:
    values: Any = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert digest(torch.tensor(values)) == hashlib.sha256(values.tobytes()).hexdigest()[:16]
    assert digest(torch.tensor(values).t()) == hashlib.sha256(np.ascontiguousarray(values.T).tobytes()).hexdigest()[:16]
    assert not same_bits(torch.tensor([0.0]), torch.tensor([-0.0]))
    assert same_bits(torch.tensor([float("nan")]), torch.tensor([float("nan")]))
    assert not same_bits(torch.ones(2), torch.ones(2, 1))


@dataclass
class Batch:
    images: torch.Tensor
    labels: list[torch.Tensor]


TWICE, MODEL = torch.ones(2), torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))


@pytest.mark.parametrize(
    ("message", "count"),
    [
        ((print, (torch.ones(1), {"a": torch.zeros(2)}), {"b": [torch.ones(3)]}), 3),
        (Batch(torch.ones(2), [torch.zeros(1), torch.ones(1)]), 3),
        (MODEL, 7),
        ((TWICE, [TWICE], MODEL[0].weight), 2),
        (("no", 7, None), 0),
    ],
    ids=["call", "object", "model", "twice", "none"],
)
def test_positions_are_those_in_the_table_of_rpc(message: Any, count: int) -> None:
    _, table = _internal_rpc_pickler.serialize(message)
    found = MessageTensors(message).tensors
    assert [each.data_ptr() for each in found] == [each.data_ptr() for each in table]
    assert [each.shape for each in found] == [each.shape for each in table]
    assert len(found) == count


def test_a_replaced_tensor_arrives_and_the_others_stay_themselves() -> None:
    first, second = torch.ones(2), torch.zeros(2)
    batch = Batch(first, [second, first])
    copy = MessageTensors(batch).replaced(0, torch.full((2,), 7.0))
    assert copy.images.tolist() == [7.0, 7.0]
    assert copy.labels[1].tolist() == [7.0, 7.0]
    assert copy.labels[0] is second
    assert batch.images is first


def test_a_models_parameter_is_replaced_by_its_data() -> None:
    model = torch.nn.Linear(2, 1, bias=False)
    copy = MessageTensors(model).replaced(0, torch.full((1, 2), 7.0))
    assert isinstance(copy.weight, torch.nn.Parameter)
    assert copy(torch.ones(2)).item() == 14.0
    assert not torch.equal(model.weight.data, copy.weight.data)


def test_what_only_rpc_can_send_stays_the_same_object() -> None:
    future: Future[int] = Future()
    again, copy = MessageTensors((future, torch.ones(1))).replaced(0, torch.zeros(1))
    assert again is future
    assert copy.item() == 0.0
