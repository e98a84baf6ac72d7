"""The program in C: it compiles without warnings, and its numbers are right."""

from __future__ import annotations

from pathlib import Path

import pytest

from reference.cli.main import main
from reference.conform.suite import Suite
from tests.support.c_compiler import compiled

SOURCE = Path(__file__).parents[2] / "examples" / "c" / "parameter_server.c"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The compiled program."""
    packages, target = "gcc libc6-dev libcjson-dev", tmp_path / "parameter_server"
    return compiled(SOURCE, target, "-lcjson", "-lm", header="cjson/cJSON.h", packages=packages)


def test_the_program_in_c_passes(
    program: Path, suite: Suite, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--out", str(tmp_path / "out"), "--cases", "parameter_server-*", "--", str(program)]
    status = main(["conform", "run", str(suite.folder), *arguments])
    printed = capfd.readouterr().out
    assert status == 0, printed
    assert printed.splitlines()[-1] == "4 cases: 2 equal, 2 within bound"
