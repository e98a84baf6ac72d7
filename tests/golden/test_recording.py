"""Golden runs name nothing of this machine, and are of a size that the repository can keep."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.golden import recording, store
from tests.golden.rows import rows


def test_a_run_is_stored_without_the_names_of_this_machine_and_judged_as_written_down(tmp_path: Path) -> None:
    files = recording.recorded(rows()["matrix/rpc_basics-Raise-reply"], tmp_path)
    assert {"plan.json", "run.json", "caller.jsonl", "caller.log", store.GOLDEN} <= set(files)
    whole = b"".join(files.values())
    for name in (str(tmp_path), str(recording.ROOT), sys.executable, "/site-packages/"):
        assert name.encode() not in whole.replace(b"/python/site-packages/", b"")
    assert b"/checkout/reference/rpc_basics.py" in whole


def test_a_long_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "role.log").write_bytes(b"x" * (recording.MOST_BYTES + 1))
    with pytest.raises(recording.Refused, match=r"role.log has 1048577 bytes"):
        dict(recording.kept(tmp_path, {}))


def test_the_same_runs_give_the_same_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "FOLDER", tmp_path)
    runs = {"b": {"run.json": b"1", "results/out": b""}, "a": {"run.json": b"2"}}
    store.pack("some", runs)
    first = store.archive("some").read_bytes()
    store.pack("some", dict(reversed(runs.items())))
    assert store.archive("some").read_bytes() == first
    assert store.unpacked("some") == runs
