"""The program in C: it compiles without warnings, and its numbers are right."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from reference.cli.main import main
from reference.conform.suite import Suite

SOURCE = Path(__file__).parents[2] / "examples" / "c" / "parameter_server.c"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The compiled program. Skips without a C compiler and cJSON, unless REFERENCE_REQUIRE_C is set."""
    compiler = shutil.which("cc")
    found = compiler is not None and _has_cjson(compiler)
    if not found and "REFERENCE_REQUIRE_C" not in os.environ:
        pytest.skip("wanted a C compiler and cJSON (Debian: gcc libc6-dev libcjson-dev)")
    assert compiler is not None, "REFERENCE_REQUIRE_C is set, but there is no C compiler"
    path = tmp_path / "parameter_server"
    flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([compiler, *flags, "-o", path, SOURCE, "-lcjson", "-lm"], check=True, timeout=60)
    return path


def _has_cjson(compiler: str) -> bool:
    text = "#include <cjson/cJSON.h>\n"
    found = subprocess.run([compiler, "-E", "-"], input=text.encode(), capture_output=True, timeout=60)
    return found.returncode == 0


def test_the_program_in_c_passes(
    program: Path, suite: Suite, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--out", str(tmp_path / "out"), "--cases", "parameter_server-*", "--", str(program)]
    status = main(["conform", "run", str(suite.folder), *arguments])
    printed = capfd.readouterr().out
    assert status == 0, printed
    assert printed.splitlines()[-1] == "4 cases: 2 equal, 2 within bound"
