"""What a machine lacks skips tests, and fails them where all have to run."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.inject.network import network
from tests.support import c_compiler, networks, required


def test_tests_of_networks_are_skipped_or_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "missing", lambda: "no nft here")
    monkeypatch.delenv(required.HOSTS, raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"^no nft here$"):
        networks.require()
    monkeypatch.setenv(required.HOSTS, "1")
    with pytest.raises(pytest.fail.Exception, match=r"^no nft here; REFERENCE_REQUIRE_HOSTS is set$"):
        networks.require()


def test_tests_of_programs_in_c_are_skipped_or_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(required.C, raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"wanted a C compiler and stdlib\.h \(Debian: gcc\)"):
        c_compiler.compiled(tmp_path / "a.c", tmp_path / "a", packages="gcc")
    monkeypatch.setenv(required.C, "1")
    with pytest.raises(pytest.fail.Exception, match="REFERENCE_REQUIRE_C is set"):
        c_compiler.compiled(tmp_path / "a.c", tmp_path / "a", packages="gcc")
