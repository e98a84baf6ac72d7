"""Golden runs are recorded only with the verdict that was written down, and name nothing of this machine."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.golden import recording, store
from tests.golden.rows import rows

ROW = rows()["matrix/rpc_basics-Raise-reply"]


def test_a_run_is_stored_without_the_names_of_this_machine_and_judged_as_written_down(tmp_path: Path) -> None:
    files = recording.recorded(ROW, tmp_path)
    assert {"plan.json", "run.json", "caller.jsonl", "caller.log", store.GOLDEN} <= set(files)
    whole = b"".join(files.values())
    for name in (str(tmp_path), str(recording.ROOT), sys.executable, "/site-packages/"):
        assert name.encode() not in whole.replace(b"/python/site-packages/", b"")
    assert b"/checkout/reference/rpc_basics.py" in whole


def test_a_run_that_ends_otherwise_is_refused(tmp_path: Path) -> None:
    with pytest.raises(recording.Refused, match=r"wanted: wrong$"):
        recording.recorded(replace(ROW, verdict="wrong"), tmp_path)


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


@pytest.fixture
def own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let this test record into archives of its own, with a table of its own."""
    monkeypatch.setattr(store, "FOLDER", tmp_path)
    monkeypatch.setattr(store, "MISSING", tmp_path / "missing.json")
    return tmp_path


def test_what_is_recorded_is_stored_and_what_cannot_be_recorded_here_is_missing_unless_it_was_recorded_elsewhere(
    own_files: Path,
) -> None:
    names = [row.name for row in rows().values() if row.source == "matrix"][:4]
    store.pack("matrix", {names[0]: {"a": b"old"}, names[1]: {"a": b"old"}, "no row": {"a": b"old"}})
    lacking = {f"matrix/{names[0]}": "no kernel", f"matrix/{names[2]}": "no netem"}
    recording.finish({f"matrix/{names[1]}": {"a": b"new"}}, lacking)
    assert store.unpacked("matrix") == {names[0]: {"a": b"old"}, names[1]: {"a": b"new"}}
    assert store.missing() == {f"matrix/{names[2]}": "no netem"}
    recording.finish({f"matrix/{names[2]}": {"a": b"new"}}, {})
    assert set(store.unpacked("matrix")) == set(names[:3])
    assert store.missing() == {}
