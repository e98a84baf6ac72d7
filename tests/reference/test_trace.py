"""Traces: files, shapes and names of their tensors, and a comparison that overlooks not one bit."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from reference import TUTORIALS
from reference.parameter_server import Case as ServerCase
from reference.rpc_basics import Case as BasicsCase
from reference.trace import Case, Comparison, Trace, TraceError, check_comparable, compare
from reference.trace.case import number_field
from reference.trace.names import DIMENSIONS, ELEMENTS, LONGEST, misnamed, step_of
from reference.trace.trace import unreadable
from tests.support.disk import files_of

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
DTYPES = [*FLOATS, torch.int64, torch.int32, torch.uint8, torch.bool]
NAMES = st.text("abc/01.", min_size=1, max_size=6).filter(lambda name: misnamed(name) is None)
CASE = BasicsCase(steps=2)


@dataclass(frozen=True)
class Foreign(Case):
    """A case of no tutorial of this package."""

    rows: int = number_field(2, "rows")


@dataclass(frozen=True)
class Twin(BasicsCase):
    """The same fields as a tutorial's case, and another type."""


def bits(trace: Trace) -> dict[str, tuple[torch.dtype, torch.Size, bytes]]:
    """The dtype, shape and bytes of each tensor; knows nothing of `compare`."""
    return {n: (t.dtype, t.shape, t.view(-1).view(torch.uint8).numpy().tobytes()) for n, t in trace.tensors.items()}


@st.composite
def tensors(draw: st.DrawFn, dtype: torch.dtype) -> torch.Tensor:
    """Zero to three dimensions, maybe empty, and any bits, those of NaN too."""
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    size = torch.Size(shape).numel() * dtype.itemsize
    raw = draw(st.binary(min_size=size, max_size=size))
    content = bytearray(byte & 1 for byte in raw) if dtype is torch.bool else bytearray(raw)
    return (torch.frombuffer(content, dtype=dtype) if size else torch.empty(0, dtype=dtype)).reshape(shape)


def trace_of(*values: float, dtype: torch.dtype = torch.float32, name: str = "0000/x", case: Case = CASE) -> Trace:
    return Trace(case, {name: torch.tensor(values, dtype=dtype)})


def flipped(tensor: torch.Tensor, element: int, bit: int) -> torch.Tensor:
    """A copy with one bit flipped."""
    copy = tensor.clone()
    copy.view(-1).view(torch.uint8)[element * copy.element_size() + bit // 8] ^= 1 << bit % 8
    return copy


def refusal(a: Trace, b: Trace) -> str:
    with pytest.raises(TraceError) as caught:
        compare(a, b)
    return str(caught.value)


def load_refusal(path: Path) -> str:
    with pytest.raises(TraceError) as caught:
        Trace.load(path)
    return str(caught.value)


# compare


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_compare_notices_every_bit(dtype: torch.dtype) -> None:
    """Each single bit of a small trace is flipped in turn."""
    numbers = {"a": torch.tensor([[0, 1], [1, 0]]).to(dtype), "b": torch.tensor(1).to(dtype)}
    trace, seen = Trace(CASE, numbers), 0
    for name, tensor in numbers.items():
        for element in range(tensor.numel()):
            for bit in range(1 if dtype is torch.bool else 8 * dtype.itemsize):
                other = Trace(CASE, {**numbers, name: flipped(tensor, element, bit)})
                comparison = compare(trace, other)
                assert not comparison.equal, (name, element, bit)
                assert comparison.worst[0] == name
                seen += 1
    assert seen == 5 * (1 if dtype is torch.bool else 8 * dtype.itemsize)


def test_compare_orders_by_name_and_reports_the_worst() -> None:
    a = Trace(CASE, {name: torch.tensor([5, 5]) for name in ("c", "a", "d", "b")})
    b = Trace(CASE, {"a": torch.tensor([5, 5]), **{name: torch.tensor([5, 8]) for name in "dbc"}})
    comparison = compare(a, b)
    assert list(comparison.distances.items()) == [("a", 0), ("b", 3), ("c", 3), ("d", 3)]
    assert comparison.worst == ("b", 3)
    assert str(comparison) == "3 ULPs in b, 3 of 4 tensors differ"
    assert str(compare(a, a)) == "bits equal in 4 tensors"
    assert str(Comparison({"x": 2**64 - 1})) == "18446744073709551615 ULPs in x, 1 of 1 tensors differ"


EXACT = ServerCase.exact()
NATURAL = ServerCase()


def test_a_zero_has_no_sign_in_an_exact_case() -> None:
    """This is so only there: in a natural case the sign counts like every other bit."""
    assert compare(trace_of(-0.0, 1.0, case=EXACT), trace_of(0.0, 1.0, case=EXACT)).equal is True
    assert compare(trace_of(-0.0, 1.0, case=NATURAL), trace_of(0.0, 1.0, case=NATURAL)).distances == {"0000/x": 1}
    assert compare(trace_of(-0.0, case=EXACT), trace_of(2.0**-149, case=EXACT)).distances == {"0000/x": 1}


def test_compare_takes_cases_that_differ_only_in_where_they_ran() -> None:
    elsewhere = replace(NATURAL, timeout=1.0, device="cuda")
    assert compare(trace_of(1.0, case=NATURAL), trace_of(1.0, case=elsewhere)).equal is True
    assert compare(trace_of(1.0, case=NATURAL), trace_of(2.0, case=elsewhere)).distances == {"0000/x": 2**23}


@pytest.mark.parametrize("shape", [(3_000_004,), (1, 100_003), (100_003, 1), (14_286, 7)], ids=str)
def test_compare_sees_one_wrong_element_wherever_it_is(shape: tuple[int, ...]) -> None:
    a = torch.ones(shape)
    for place in (0, 1, a.numel() // 2 + 1, a.numel() - 1):
        b = a.clone()
        b.view(-1)[place] += 2.0**-23
        assert compare(Trace(CASE, {"x": a}), Trace(CASE, {"x": b})).distances == {"x": 1}, place


@pytest.mark.parametrize("other", [replace(CASE, seed=1), Twin(steps=2), Case(steps=2)], ids=["seed", "type", "base"])
def test_compare_refuses_different_cases(other: Case) -> None:
    """Those of another type are refused even if all fields are equal."""
    assert refusal(trace_of(1.0), trace_of(1.0, case=other)) == f"traces of different cases: {CASE} and {other}"
    assert refusal(trace_of(1.0, case=other), trace_of(1.0)) == f"traces of different cases: {other} and {CASE}"


def test_compare_refuses_missing_tensors() -> None:
    one = Trace(CASE, {"x": torch.ones(1)})
    three = Trace(CASE, {name: torch.ones(1) for name in "zxy"})
    assert refusal(one, three) == "the first trace lacks 2 tensors, among them 'y'"
    assert refusal(three, one) == "the second trace lacks 2 tensors, among them 'y'"
    none = Trace(CASE, {})
    assert refusal(none, one) == "the first trace lacks 1 tensors, among them 'x'"
    assert refusal(one, none) == "the second trace lacks 1 tensors, among them 'x'"


def test_compare_refuses_two_empty_traces() -> None:
    assert refusal(Trace(CASE, {}), Trace(CASE, {})) == "neither trace has a tensor, wanted at least one"


@pytest.mark.parametrize(("a", "b"), [((2,), (1, 2)), ((2, 3), (3, 2)), ((0,), (0, 2)), ((1,), (4,))], ids=str)
def test_compare_refuses_other_shapes(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    """Including shapes that numpy would broadcast, and shapes with as many elements."""
    left, right = Trace(CASE, {"x": torch.ones(a)}), Trace(CASE, {"x": torch.ones(b)})
    assert refusal(left, right) == f"x: shapes differ, {a} and {b}"
    assert refusal(right, left) == f"x: shapes differ, {b} and {a}"


@pytest.mark.parametrize(
    ("a", "b"),
    [(torch.float32, torch.float64), (torch.float16, torch.bfloat16), (torch.uint8, torch.bool)],
    ids=str,
)
def test_compare_refuses_other_dtypes(a: torch.dtype, b: torch.dtype) -> None:
    """Including dtypes of one width, whose bits could be equal."""
    left, right = trace_of(0.0, dtype=a), trace_of(0.0, dtype=b)
    assert refusal(left, right) == f"0000/x: dtypes differ, {a} and {b}"
    assert refusal(right, left) == f"0000/x: dtypes differ, {b} and {a}"


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_compare_refuses_nan(dtype: torch.dtype) -> None:
    """NaN is refused on either side, and on both with equal bits: two broken runs must not confirm each other."""
    good, bad = trace_of(1.0, 2.0, dtype=dtype), trace_of(1.0, float("nan"), dtype=dtype)
    for left, right in ((good, bad), (bad, good), (bad, bad)):
        assert refusal(left, right) == "0000/x: holds NaN"


def test_compare_refuses_complex_numbers() -> None:
    """They are refused on either side, although dtypes may differ: a trace has none, but a caller's mapping may."""
    real, other = {"x": torch.ones(1)}, {"x": torch.ones(1, dtype=torch.complex64)}
    for left, right in ((real, other), (other, real)):
        with pytest.raises(TraceError, match=r"^x: not a plain tensor of real numbers"):
            check_comparable(left, right, same_dtype=False)


# save and load


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@settings(max_examples=15)
@given(data=st.data())
def test_files_keep_every_bit(dtype: torch.dtype, data: st.DataObject) -> None:
    """This includes NaN, and the case with its type."""
    names = data.draw(st.lists(NAMES, max_size=3, unique=True))
    trace = Trace(
        ServerCase(steps=data.draw(st.integers(1, 2**80)), lr=data.draw(st.floats(0, 1e308))),
        {name: data.draw(tensors(dtype)) for name in names},
    )
    with tempfile.TemporaryDirectory() as folder:
        trace.save(f"{folder}/trace.safetensors")
        loaded = Trace.load(f"{folder}/trace.safetensors")
        assert [each.name for each in Path(folder).iterdir()] == ["trace.safetensors"]
    assert type(loaded.case) is ServerCase
    assert loaded.case == trace.case
    assert bits(loaded) == bits(trace)


def test_a_foreign_case_is_loaded_by_its_type(tmp_path: Path) -> None:
    trace = trace_of(1.0, case=Foreign(rows=5))
    trace.save(tmp_path / "t")
    loaded = Trace.load(tmp_path / "t", Foreign)
    assert type(loaded.case) is Foreign
    assert compare(loaded, trace).distances == {"0000/x": 0}


@pytest.mark.parametrize("content", [b"", b"\x02\0\0\0\0\0\0\0{}" + bytes(9), b"\xff" * 100])
def test_load_refuses_what_is_no_safetensors_file(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(content)
    assert load_refusal(tmp_path / "t").startswith(f"{tmp_path / 't'}: not a safetensors file (")


def test_load_refuses_a_folder(tmp_path: Path) -> None:
    assert load_refusal(tmp_path) == f"{tmp_path}: a folder, wanted a trace file"


def test_load_of_no_file_is_the_systems_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        Trace.load(tmp_path / "nowhere")


def test_load_of_a_file_that_cannot_be_opened_is_the_systems_error(tmp_path: Path) -> None:
    """Safetensors would say that there is no such file."""
    (tmp_path / "t").symlink_to(tmp_path / "t")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        Trace.load(tmp_path / "t")


@pytest.mark.parametrize("header", [None, {"tutorial": "rpc_basics"}, {"case": "{}"}, {"format": "pt"}], ids=str)
def test_load_refuses_a_file_without_a_case(header: dict[str, str] | None, tmp_path: Path) -> None:
    save_file({"x": torch.ones(1)}, tmp_path / "t", metadata=header)
    assert load_refusal(tmp_path / "t") == f"{tmp_path / 't'}: its header has no case, wanted a trace file"


@pytest.mark.parametrize("name", ["", "os", "../rpc_basics", "cli"])
def test_load_refuses_an_unknown_tutorial(name: str, tmp_path: Path) -> None:
    """This holds even for one that could be imported, because a file must not choose what is imported."""
    save_file({"x": torch.ones(1)}, tmp_path / "t", metadata={"tutorial": name, "case": "{}"})
    assert load_refusal(tmp_path / "t") == f"unknown tutorial {name!r}, wanted one of {', '.join(TUTORIALS)}"


def test_a_save_onto_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "t"
    trace_of(1.0).save(target)
    before = target.read_bytes()
    with files_of(16), pytest.raises(OSError, match="File too large"):
        trace_of(2.0).save(target)
    assert target.read_bytes() == before
    assert [*tmp_path.iterdir()] == [target]


def test_what_is_no_plain_file_is_left_alone_and_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TraceError, match=r"pipe: not a plain file, so it is not replaced$"):
        trace_of(1.0).save(tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()
    assert load_refusal(tmp_path / "pipe").endswith("pipe: not a plain file, wanted a trace file")


# losses


def test_losses_are_each_steps_mean() -> None:
    losses = {"0001/loss/a": 4.0, "0000/loss/b": 3.0, "0000/loss/a": 1.0, "0001/loss/c": 5.0}
    others = {"0000/gradient/loss": 70.0, "initial/loss": 80.0, "0000/parameter/loss/x": 90.0}
    trace = Trace(CASE, {name: torch.tensor(value) for name, value in {**losses, **others}.items()})
    assert trace.losses() == [2.0, 4.5]
    assert trace_of(1.0, name="0000/sum").losses() == []


def test_losses_of_more_than_ten_thousand_steps_are_in_order() -> None:
    trace = Trace(CASE, {f"{step:04d}/loss/a": torch.tensor(float(step)) for step in (9999, 10000, 10001)})
    assert trace.losses() == [9999.0, 10000.0, 10001.0]


@pytest.mark.parametrize(
    ("shape", "why"),
    [
        ((1,) * DIMENSIONS, None),
        ((1,) * (DIMENSIONS + 1), "33 dimensions, wanted at most 32"),
        ((0, ELEMENTS), None),
        ((0, ELEMENTS + 1), f"too large a shape, (0, {ELEMENTS + 1})"),
    ],
    ids=["dimensions", "one dimension more", "elements", "one element more"],
)
def test_a_shape_is_refused_beyond_its_limit_and_not_at_it(shape: tuple[int, ...], why: str | None) -> None:
    assert unreadable(torch.empty(shape)) == why


@pytest.mark.parametrize(("length", "refused"), [(LONGEST, False), (LONGEST + 1, True)])
def test_a_name_is_refused_beyond_its_longest_length_and_not_at_it(length: int, refused: bool) -> None:
    assert bool(misnamed("x" * length)) is refused


@pytest.mark.parametrize(("digits", "refused"), [(3, True), (4, False), (18, False), (19, True)])
def test_the_number_of_a_losss_step_has_4_to_18_digits(digits: int, refused: bool) -> None:
    name = f"{'7' * digits}/loss/trainer1"
    assert bool(misnamed(name)) is refused
    assert step_of(name) == (None if refused else int("7" * digits))
