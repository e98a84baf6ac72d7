"""Programs in C, in Rust and on other engines: their numbers are right, or they skip with a reason."""

from __future__ import annotations

import ast
import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from reference.cli.main import main
from reference.conform.suite import Suite
from tests.support.c_compiler import compiled

EXAMPLES = Path(__file__).parents[2] / "examples"
Capture = pytest.CaptureFixture[str]


def verdicts(suite: Suite, program: list[str], cases: str, out: Path, capfd: Capture) -> dict[str, str]:
    """Run a program on some cases, and return their verdicts."""
    arguments = ["--out", str(out), "--cases", cases, "--format", "json", "--", *program]
    main(["conform", "run", str(suite.folder), *arguments])
    return {each["id"]: each["verdict"] for each in json.loads(capfd.readouterr().out)["cases"]}


def test_the_program_in_c_passes(suite: Suite, tmp_path: Path, capfd: Capture) -> None:
    source, program, packages = EXAMPLES / "c" / "parameter_server.c", tmp_path / "c", "gcc libc6-dev libcjson-dev"
    compiled(source, program, "-lcjson", "-lm", header="cjson/cJSON.h", packages=packages)
    found = verdicts(suite, [str(program)], "parameter_server-*", tmp_path / "out", capfd)
    assert sorted(found.values()) == ["equal", "equal", "within bound", "within bound", "within bound"]


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("rustc"), reason="wanted rustc (Debian: rustc)")
def test_the_program_in_rust_passes(suite: Suite, tmp_path: Path, capfd: Capture) -> None:
    source, program = EXAMPLES / "rust" / "rnn.rs", tmp_path / "rust"
    subprocess.run(["rustc", "-O", "--edition", "2021", "-D", "warnings", "-o", program, source], check=True)
    found = verdicts(suite, [str(program)], "r*n*", tmp_path / "out", capfd)
    assert found["rnn-001"] == found["rnn-002"] == found["rnn-003"] == "within bound"
    assert found["reinforce-001"] == "skipped"


@pytest.mark.long
def test_ddp_trains_as_the_batch_servers_do(suite: Suite, tmp_path: Path, capfd: Capture) -> None:
    program = [sys.executable, str(EXAMPLES / "torch" / "ddp.py")]
    found = verdicts(suite, program, "*h*_parameter_server-*", tmp_path / "out", capfd)
    assert found["batch_parameter_server-001"] == found["sharded_parameter_server-001"] == "equal"
    assert {found["batch_parameter_server-002"], found["batch_parameter_server-005"]} <= {"equal", "within bound"}
    assert found["batch_parameter_server-003"] == found["sharded_parameter_server-002"] == "skipped"


@pytest.mark.long
@pytest.mark.parametrize("schedule", ["GPipe", "1F1B"])
def test_pipelining_trains_as_the_pipeline_does(suite: Suite, schedule: str, tmp_path: Path, capfd: Capture) -> None:
    program = [sys.executable, str(EXAMPLES / "torch" / "pipelining.py"), schedule]
    found = verdicts(suite, program, "pipeline-*", tmp_path / "out", capfd)
    assert found == {"pipeline-001": "equal", "pipeline-002": "skipped"}


def verdicts_of_engine(
    package: str, suite: Suite, program: Path, cases: str, out: Path, capfd: Capture
) -> dict[str, str]:
    """Where the engine is not installed, all cases are skipped, which is shown, and then the test is, too."""
    found = verdicts(suite, [sys.executable, str(program)], cases, out, capfd)
    if importlib.util.find_spec(package) is None:
        assert set(found.values()) == {"skipped"}
        pytest.skip(f"{package} is not installed: all cases were skipped, as they must be")
    return found


@pytest.mark.long
def test_ray_trains_as_the_parameter_servers_do(suite: Suite, tmp_path: Path, capfd: Capture) -> None:
    program = EXAMPLES / "ray" / "parameter_servers.py"
    found = verdicts_of_engine("ray", suite, program, "*r_server-001", tmp_path / "out", capfd)
    assert found["parameter_server-001"] == found["batch_parameter_server-001"] == "equal"


@pytest.mark.long
def test_jax_trains_as_every_tutorial_does(suite: Suite, tmp_path: Path, capfd: Capture) -> None:
    found = verdicts_of_engine("jax", suite, EXAMPLES / "jax", "*", tmp_path / "out", capfd)
    exact = {name for name, case in suite.cases.items() if "EXACT" in case.described["requirements"]}
    assert {found[name] for name in exact} == {"equal"}
    assert set(found.values()) == {"equal", "within bound"}


@pytest.mark.long
def test_monarch_trains_as_the_servers_and_the_pipeline_do(suite: Suite, tmp_path: Path, capfd: Capture) -> None:
    program = EXAMPLES / "monarch" / "actors.py"
    found = verdicts_of_engine("monarch", suite, program, "*p[ai]*e*-001", tmp_path / "out", capfd)
    assert found["parameter_server-001"] == found["batch_parameter_server-001"] == found["pipeline-001"] == "equal"


def packages_of(path: Path) -> set[str]:
    """The packages that a program imports."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    found = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    found |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    return {name.partition(".")[0] for name in found}


def test_programs_in_numpy_import_nothing_else() -> None:
    programs = list(EXAMPLES.glob("numpy/*.py"))
    allowed = {*(each.stem for each in programs), *sys.stdlib_module_names, "numpy"}
    assert {path.name: packages_of(path) - allowed for path in programs} == {path.name: set() for path in programs}
    assert len(programs) >= 11


def test_no_program_imports_this_package() -> None:
    folders = ("jax", "monarch", "ray", "torch")
    programs = [path for folder in folders for path in EXAMPLES.glob(f"{folder}/*.py")]
    assert [path for path in programs if packages_of(path) & {"reference", "faults", "tests"}] == []
    assert {path.parent.name for path in programs} == {*folders}
