"""A suite as one archive: what it holds, and that its bytes depend on nothing else."""

from __future__ import annotations

import hashlib
import os
import tarfile
import time
from pathlib import Path

import pytest

from reference.cli.main import main
from reference.conform.suite import SUITE, open_suite

CASES = ["--cases", "parameter_server-00[12]", "--cases", "rpc_basics-001"]


def exported(file: Path) -> bytes:
    assert main(["conform", "export", str(file), "--archive", *CASES]) == 0
    return file.read_bytes()


def test_an_archive_holds_the_suite(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = exported(tmp_path / "suite.tar")
    digest = hashlib.sha256(content).hexdigest()
    assert capsys.readouterr().out == f"3 cases of suite {SUITE} in {tmp_path / 'suite.tar'}, SHA-256 {digest}\n"
    with tarfile.open(tmp_path / "suite.tar") as archive:
        archive.extractall(tmp_path, filter="data")
    suite = open_suite(tmp_path / f"suite-{SUITE}")
    assert list(suite.cases) == ["rpc_basics-001", "parameter_server-001", "parameter_server-002"]


def test_an_archive_has_the_same_bytes_at_another_time_and_for_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = exported(tmp_path / "first.tar")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 86400)
    umask = os.umask(0o077)
    try:
        assert exported(tmp_path / "second.tar") == first
    finally:
        os.umask(umask)
    with tarfile.open(tmp_path / "first.tar") as archive:
        members = [(each.name, each.mtime, each.uid, each.mode) for each in archive]
    assert [(mtime, uid, mode) for _, mtime, uid, mode in members] == [(0, 0, 0o644)] * len(members)
    assert [name for name, *_ in members] == sorted(name for name, *_ in members)


def test_an_archive_replaces_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conform", "export", str(tmp_path), "--archive", *CASES]) == 2
    assert "it is a directory, wanted a file" in capsys.readouterr().err
