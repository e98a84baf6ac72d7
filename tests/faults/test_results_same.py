"""Files of two runs are the same by their bytes or tensors, their standard output by its lines."""

from __future__ import annotations

import pickle
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from faults.script.results import file_difference, output_difference

ONE = {"layer": {"weight": torch.tensor([[1.0, 2.0], [3.0, float("nan")]])}, "steps": [3, 4]}
WEIGHT, WANTED = "['layer']['weight']", "wanted torch.float32 of (2, 2)"


def other(weight: object) -> dict[str, Any]:
    return {**ONE, "layer": {"weight": weight}}


@pytest.mark.parametrize(
    ("wanted", "got", "said"),
    [
        (ONE, ONE, None),
        (ONE, {**ONE, "steps": [3, 5]}, "['steps'][1]: 5, wanted 4"),
        (ONE, {**ONE, "steps": [3]}, "no ['steps'][1]"),
        (ONE, {**ONE, "more": 1}, "['more'], which is not wanted"),
        (ONE, other(torch.zeros(2, 2)), f"{WEIGHT}: 4 of 4 numbers have other bits"),
        (ONE, other(torch.tensor([[1.0, 2], [-3, float("nan")]])), f"{WEIGHT}: 1 of 4 numbers have other bits"),
        (ONE, other(torch.zeros(4)), f"{WEIGHT}: torch.float32 of shape (4,), {WANTED}"),
        (ONE, other(torch.zeros(2, 2).double()), f"{WEIGHT}: torch.float64 of shape (2, 2), {WANTED}"),
        (ONE, other(1.0), f"{WEIGHT}: a float, wanted a Tensor"),
        ({0: 1, "0": 2}, {0: 3, "0": 2}, "[0]: 3, wanted 1"),
        ({"a": {"b": 1}, "a.b": 2}, {"a": {"b": 3}, "a.b": 2}, "['a']['b']: 3, wanted 1"),
        ({1: 5}, {True: 5}, "no [1]"),
        ({"a": 1, "log": []}, {"a": 1}, "no ['log']"),
        ({"log": []}, {"log": {}}, "['log']: a dict, wanted a list"),
        ([1], (1,), "the whole: a tuple, wanted a list"),
        ({"x": 0.0}, {"x": -0.0}, "['x']: -0.0, wanted 0.0"),
        ({"x": 1}, {"x": 1.0}, "['x']: a float, wanted a int"),
        ({"x": float("nan"), "y": 1}, {"y": 1, "x": float("nan")}, None),
        ({"x": {0, 8}}, {"x": {8, 0}}, None),  # which have two orders
        ({"x": {1, 2}}, {"x": {1, 3}}, "['x']: {1, 3}, wanted {1, 2}"),
    ],
)
def test_files_of_torch_are_compared_by_their_values_with_keys_and_containers(
    wanted: Any, got: Any, said: str | None, tmp_path: Path
) -> None:
    """A file's name is in its bytes, so that two files of the same tensors differ in these."""
    for name, value in (("wanted.pt", wanted), ("got.pt", got)):
        torch.save(value, tmp_path / name)
    assert file_difference(tmp_path / "wanted.pt", tmp_path / "got.pt") == said
    assert (tmp_path / "wanted.pt").read_bytes() != (tmp_path / "got.pt").read_bytes()


@pytest.mark.parametrize(("got", "said"), [(0.0, None), (-0.0, "['w']: 1 of 1 numbers have other bits")])
def test_safetensors_may_differ_in_their_header_but_not_in_a_sign_of_zero(
    got: float, said: str | None, tmp_path: Path
) -> None:
    for name, value in (("wanted", 0.0), ("got", got)):
        save_file({"w": torch.tensor(value)}, tmp_path / f"{name}.safetensors", metadata={"date": name})
    assert file_difference(tmp_path / "wanted.safetensors", tmp_path / "got.safetensors") == said


def test_other_files_are_compared_by_their_bytes(tmp_path: Path) -> None:
    for name, content in (("a", b"one"), ("b", b"two"), ("c", b"one more"), ("d.safetensors", b"{}")):
        (tmp_path / name).write_bytes(content)
    assert file_difference(tmp_path / "a", tmp_path / "a") is None
    assert file_difference(tmp_path / "a", tmp_path / "b") == "byte 0 of 3 differs, wanted 3 bytes"
    assert file_difference(tmp_path / "a", tmp_path / "c") == "8 bytes, wanted 3"
    assert file_difference(tmp_path / "d.safetensors", tmp_path / "a") == "byte 0 of 3 differs, wanted 2 bytes"


class Executed:
    """Creates a file where it is unpickled by whoever executes code."""

    def __reduce__(self) -> Any:
        return Path.touch, (Path("executed"),)


def test_no_code_of_a_file_is_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("wanted.pt", "got.pt"):
        with zipfile.ZipFile(tmp_path / name, "w") as file:
            file.writestr(f"{name}/data.pkl", pickle.dumps(Executed()))
            file.writestr(f"{name}/version", "3\n")
    assert file_difference(tmp_path / "wanted.pt", tmp_path / "got.pt") is not None
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    ("wanted", "got", "ignored", "said"),
    [
        ("a\nb\n", "b\na\n", "-", None),
        ("a\na\n", "a\n", "-", "no line 'a'"),
        ("a\n", "a\na\n", "-", "the line 'a'"),
        ("a\nb\nc\n", "a\nd\n", "-", "no line 'b' and 1 more, the line 'd'"),
        ("a 1.5 s\n", "a 2.5 s\n", r"\d+\.\d s", None),
        ("a\n", "a\ntried again 3\n", "tried again.*", None),  # nothing remains of the line
        ("a\n", "a\n\n", "-", "the line ''"),
        ("a 1\n", "b 2\n", r"\d", "no line 'a ', the line 'b '"),
        ("", "", "-", None),
    ],
)
def test_lines_are_compared_without_their_order(
    wanted: str, got: str, ignored: str, said: str | None, tmp_path: Path
) -> None:
    (tmp_path / "wanted").write_text(wanted)
    (tmp_path / "got").write_text(got)
    assert output_difference(tmp_path / "wanted", tmp_path / "got", [re.compile(ignored)]) == said


def test_bytes_of_other_encodings_are_told_apart(tmp_path: Path) -> None:
    for name, byte in (("wanted", b"\xe9"), ("got", b"\xe8")):
        (tmp_path / name).write_bytes(b"sum " + byte + b"\n")
    found = output_difference(tmp_path / "wanted", tmp_path / "got")
    assert found is not None
    assert found.isprintable()
    assert output_difference(tmp_path / "got", tmp_path / "got") is None
