"""Users with modules of their own called `faults` or `reference`: their Python and their pytest work, and print one
line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from faults.cli.main import main
from faults.script.autostart import SAID, VARIABLE
from tests.properties.hostile import is_one_line
from tests.support.suite_runs import ROOT, installed
from torch_rpc_reference_startup import hiding, say

TOLD = "tests that import the former need -p no:torch_rpc_reference_plugin"

THEIRS = {"faults": "faults.py", "reference": "reference/__init__.py"}


def theirs(place: Path, name: str) -> Path:
    """Make a module of that name that belongs to another project."""
    file = place / THEIRS[name]
    file.parent.mkdir(exist_ok=True)
    file.write_text("HERE = 7\n")
    return file


def startup(place: Path, run: str | Path, *modules: Path) -> dict[str, str]:
    """Return the variables with which Python starts as where the package is installed: the line of `faults.pth` stands
    in ``place``, and runs under FAULTS_RUN=``run``. Folders of ``modules`` come before this project."""
    (place / "sitecustomize.py").write_text((ROOT / "faults.pth").read_text())
    kept = {name: value for name, value in os.environ.items() if name != SAID}
    return {**kept, VARIABLE: str(run), "PYTHONPATH": os.pathsep.join(map(str, [place, *modules, ROOT]))}


@pytest.mark.parametrize("name", THEIRS)
def test_a_module_that_hides_a_package_is_found_whatever_is_loaded(name: str, tmp_path: Path) -> None:
    assert hiding() == hiding(str(tmp_path)) == ""
    file = theirs(tmp_path, name)
    assert hiding(str(tmp_path)) == f"{file} hides the package `{name}` of torch-rpc-reference"
    file.unlink()  # Python prefers a package at a later place on its path to a folder without modules
    assert hiding(str(tmp_path)) == hiding(str(tmp_path / "nowhere"), str(ROOT)) == ""


class TestPytest:
    @pytest.fixture(autouse=True)
    def _as_installed(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        installed(pytester, monkeypatch)
        for name in ("PYTEST_XDIST_WORKER", "PYTEST_ADDOPTS", VARIABLE):
            monkeypatch.delenv(name, raising=False)
        pytester.makeini("[pytest]\n")

    @pytest.mark.parametrize("command", ["pytest", "python -m pytest"])
    @pytest.mark.parametrize("name", THEIRS)
    def test_tests_beside_a_hiding_module_run_without_the_plugin(
        self, name: str, command: str, pytester: pytest.Pytester
    ) -> None:
        # Only `python -m` puts the current folder on Python's path; pytester itself always does.
        words = [sys.executable, *(["-P"] if command == "pytest" else []), "-m", "pytest", "-p", "no:cacheprovider"]
        file = theirs(pytester.path, name)
        pytester.makepyfile(f"import {name}\n\n\ndef test_theirs():\n    assert {name}.HERE == 7\n")
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
        assert "1 passed" in done.stdout
        assert "faults:" not in done.stdout
        said = f"torch-rpc-reference: its pytest plugin is not used: {file} hides the package `{name}`"
        assert done.stderr.splitlines() == [f"{said} of torch-rpc-reference"]

    def test_a_hiding_module_beside_tests_is_named_if_they_fail(self, pytester: pytest.Pytester) -> None:
        (pytester.path / "unit").mkdir()
        file = theirs(pytester.path / "unit", "faults")
        (pytester.path / "unit" / "test_theirs.py").write_text("from faults import HERE\n")
        result = pytester.runpytest_subprocess("-p", "no:cacheprovider", timeout=60)
        assert result.ret == pytest.ExitCode.INTERRUPTED
        result.stdout.fnmatch_lines([f"torch-rpc-reference: {file} hides *: {TOLD}"])

    @pytest.mark.parametrize("name", THEIRS)
    def test_a_module_that_a_conftest_cannot_import_is_named(self, name: str, pytester: pytest.Pytester) -> None:
        """pytest is started in another folder, and ends before its summary."""
        (pytester.path / "unit").mkdir()
        file = theirs(pytester.path / "unit", name)
        (pytester.path / "unit" / "conftest.py").write_text(f"from {name} import HERE\n")
        result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "unit", timeout=60)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([f"torch-rpc-reference: {file} hides *: {TOLD}", "ImportError while loading *"])


@pytest.mark.parametrize("where", ["PYTHONPATH", "beside the program"])
@pytest.mark.parametrize("name", THEIRS)
def test_a_program_with_their_module_runs_under_the_variable(name: str, where: str, tmp_path: Path) -> None:
    """The line of `faults.pth` runs before Python knows the program's own folder."""
    modules, site = tmp_path / "modules", tmp_path / "site"
    modules.mkdir()
    site.mkdir()
    file = theirs(modules, name)
    program = (modules if where != "PYTHONPATH" else tmp_path) / "program.py"
    program.write_text(f"import {name}\nprint({name}.HERE)\nimport faults\n")
    environment = startup(site, tmp_path, *([modules] if where == "PYTHONPATH" else []))
    done = subprocess.run([sys.executable, str(program)], env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout == "7\n"
    said = f"torch-rpc-reference: FAULTS_RUN does nothing here: {file} hides the package `{name}`"
    assert done.stderr.splitlines() == [f"{said} of torch-rpc-reference"]
    assert done.returncode == 0


@pytest.mark.parametrize("end", ["", " 2>&-"], ids=["usual", "no-standard-error"])
def test_a_start_that_fails_leaves_the_program_alone(end: str, tmp_path: Path) -> None:
    """The current folder is removed here, so a relative path has no meaning."""
    text = f"mkdir gone && cd gone && rmdir ../gone && {sys.executable} -P -c 'print(7)'{end}"
    variables = startup(tmp_path, "run")
    done = subprocess.run(["sh", "-c", text], cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert done.stdout == "7\n"
    assert len(done.stderr.splitlines()) == (0 if end else 1)
    assert end or done.stderr.startswith("torch-rpc-reference: FAULTS_RUN does nothing here: FileNotFoundError: ")


def test_the_command_says_which_module_hides_its_own(tmp_path: Path) -> None:
    file = theirs(tmp_path, "reference")
    words = [sys.executable, "-m", "faults", "list", "rpc_basics"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stdout == ""
    said = f"torch-rpc-reference: {file} hides the package `reference` of torch-rpc-reference"
    assert done.stderr.splitlines() == [said]


def test_whoever_only_looks_for_a_module_gets_the_one_that_runs(tmp_path: Path) -> None:
    """`python -m` looks twice, too, and there must be only one module."""
    text = "import importlib.util as u; print(u.find_spec('faults').origin)"
    text += "; from faults.script import autostart; autostart.start()"
    text += "; import sys; print([type(each).__module__ for each in sys.meta_path].count(autostart.__name__))"
    variables = startup(tmp_path, tmp_path)
    done = subprocess.run([sys.executable, "-c", text], env=variables, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == [str(ROOT / "faults" / "__init__.py"), "1"]


@pytest.mark.long
def test_the_commands_take_no_notice_of_the_variable(tmp_path: Path) -> None:
    """The user may leave it exported and call `check`."""
    assert main(["prepare", str(tmp_path / "run"), "--plan", "Duplicate site=shop:pay"]) == 0
    environment = startup(tmp_path, tmp_path / "run")
    before = sorted(tmp_path.rglob("*"))
    for words in (["check", str(tmp_path / "run")], ["run", "rpc_basics", "--healthy"]):
        command = [sys.executable, "-m", "faults", *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
        assert "verdict: " in done.stdout
        assert done.stderr == ""
    assert [each for each in sorted(tmp_path.rglob("*")) if "__pycache__" not in each.parts] == before


def test_a_message_is_one_printable_line(capfd: pytest.CaptureFixture[str]) -> None:
    """A folder's name may be any text, such as a verdict on a line of its own."""
    say("\x1b[31m\nverdict: equal\udcff" + "x" * 10**5)
    line = capfd.readouterr().err.removesuffix("\n")
    assert line.startswith(r"torch-rpc-reference: \x1b[31m\nverdict: equal\udcff")
    assert is_one_line(line)
