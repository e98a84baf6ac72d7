"""Programs in C and on other engines: their numbers are right, or they skip with a reason."""

from __future__ import annotations

import ast
import importlib.util
import json
import sys
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


EXAMPLES = Path(__file__).parents[2] / "examples"
DDP = [str(EXAMPLES / "torch" / "ddp.py")]
PIPELINING = str(EXAMPLES / "torch" / "pipelining.py")
RAY = [str(EXAMPLES / "ray" / "parameter_servers.py")]


def verdicts(
    suite: Suite, program: list[str], cases: str, out: Path, capfd: pytest.CaptureFixture[str]
) -> dict[str, str]:
    """Run a program on some cases; every verdict must be right or a skip."""
    arguments = ["--out", str(out), "--cases", cases, "--format", "json", "--", sys.executable, *program]
    main(["conform", "run", str(suite.folder), *arguments])
    return {each["id"]: each["verdict"] for each in json.loads(capfd.readouterr().out)["cases"]}


@pytest.mark.long
def test_ddp_trains_as_the_batch_servers_do(suite: Suite, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = verdicts(suite, DDP, "*h*_parameter_server-*", tmp_path / "out", capfd)
    assert found["batch_parameter_server-001"] == found["sharded_parameter_server-001"] == "equal"
    assert found["batch_parameter_server-002"] in ("equal", "within bound")
    assert found["batch_parameter_server-003"] == found["sharded_parameter_server-002"] == "skipped"


@pytest.mark.long
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_pipelining_trains_as_the_pipeline_does(
    suite: Suite, schedule: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    found = verdicts(suite, [PIPELINING, schedule], "pipeline-*", tmp_path / "out", capfd)
    assert found == {"pipeline-001": "equal", "pipeline-002": "skipped"}


@pytest.mark.long
def test_ray_trains_as_the_parameter_servers_do(
    suite: Suite, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Where Ray is not installed, all cases are skipped, which is shown, too."""
    found = verdicts(suite, RAY, "*r_server-00[12]", tmp_path / "out", capfd)
    if importlib.util.find_spec("ray") is None:
        assert set(found.values()) == {"skipped"}
        pytest.skip("Ray is not installed: all cases were skipped, as they must be")
    assert found["parameter_server-001"] == found["batch_parameter_server-001"] == "equal"


@pytest.mark.long
@pytest.mark.parametrize(
    "path", sorted([*EXAMPLES.glob("torch/*.py"), *EXAMPLES.glob("ray/*.py")]), ids=lambda path: path.name
)
def test_no_program_imports_this_package(path: Path) -> None:
    tree = ast.parse(path.read_text())
    found = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    found |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not {name.partition(".")[0] for name in found} & {"reference", "faults", "tests"}
