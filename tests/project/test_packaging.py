"""What is installed, and with which versions: every room, every file, and bounds of which the lowest are tested."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_rooms_are_all_packaged() -> None:
    """A room that the build left out would be missed only where the package is installed."""
    program = "import setuptools, sys; print(*setuptools.find_packages(include=['reference*', 'faults*']))"
    found = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    folders = {file.parent for room in ("reference", "faults") for file in (ROOT / room).rglob("*.py")}
    wanted = {".".join(folder.relative_to(ROOT).parts) for folder in folders} - {"faults.startup"}
    assert set(found.split()) == wanted


def test_every_file_that_is_no_module_is_package_data() -> None:
    named = PROJECT["tool"]["setuptools"]["package-data"]["reference"]
    files = [path for path in (ROOT / "reference").rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")]
    found = [str(path.relative_to(ROOT / "reference")) for path in files]
    assert sorted(named) == sorted(found)
    assert "training/text.txt" in found


def test_the_lowest_versions_that_are_tested_are_the_lowest_that_are_allowed() -> None:
    """A bound of `2.6` is met by the first release that begins with that."""
    extras = PROJECT["project"]["optional-dependencies"]
    tutorials, *others = extras["test"]
    assert tutorials == "torch-rpc-reference[tutorials]"
    allowed = [*PROJECT["project"]["dependencies"], *extras["tutorials"], *others]
    lowest = dict(line.split("==") for line in (ROOT / "lowest.txt").read_text().splitlines() if "==" in line)
    assert lowest.keys() == {each.partition(">=")[0] for each in allowed}
    for each in allowed:
        name, _, bound = each.partition(">=")
        assert f"{lowest[name]}.".startswith(f"{bound}."), each


@pytest.mark.parametrize(
    ("script", "arguments", "said"),
    [("rpc-reference", ["list"], "batch_parameter_server"), ("rpc-faults", ["--help"], "usage: python -m faults")],
)
def test_a_script_is_the_command(script: str, arguments: list[str], said: str) -> None:
    """It lies beside the Python into which this project is installed."""
    command = [str(Path(sys.executable).with_name(script)), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout


def test_the_version_that_is_cited_is_this_one() -> None:
    assert f"\nversion: {PROJECT['project']['version']}\n" in (ROOT / "CITATION.cff").read_text()


@pytest.mark.parametrize(
    ("script", "package", "said"),
    [
        ("rpc-reference", "reference", "error: {} would hide the package `reference` in the processes of roles"),
        ("rpc-faults", "faults", "torch-rpc-reference: {} hides the package `faults` of torch-rpc-reference"),
    ],
)
def test_a_script_names_a_module_that_would_hide_its_package_in_roles(
    script: str, package: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / f"{package}.py").touch()
    command = [str(Path(sys.executable).with_name(script)), "run", "rnn", "--steps", "1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    told = said.format(tmp_path / f"{package}.py")
    assert (done.returncode, done.stderr) == (2, f"{told}\n")


def test_a_folder_of_its_packages_name_hides_nothing(tmp_path: Path) -> None:
    """It is no package, so Python goes on to the installed one."""
    (tmp_path / "reference").mkdir()
    command = [sys.executable, "-m", "reference", "list", "--help"]
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


EXTRA = "is not installed, which this command needs: install this project with its extra `tutorials`"


@pytest.mark.parametrize(
    ("missing", "package", "words", "told"),
    [
        ("gymnasium", "reference", ["run", "reinforce"], f"gymnasium {EXTRA}"),
        ("safetensors", "reference", ["run", "rnn"], f"safetensors {EXTRA}"),
        ("torchvision", "reference", ["run", "pipeline"], f"torchvision {EXTRA}"),
        ("safetensors", "faults", ["run", "--script", "no.py"], "--script no.py: no such file"),
        (
            "safetensors",
            "faults",
            ["merge", "no"],
            "no is not the report of a sweep (--json): no: No such file or directory",
        ),
    ],
)
def test_a_missing_extra_is_one_line_that_names_it_where_it_is_needed(
    missing: str, package: str, words: list[str], told: str
) -> None:
    program = f"""
import sys

sys.modules[{missing!r}] = None
sys.argv = {[package, *words]}
from {package}.__main__ import main

main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (2, f"error: {told}\n")


def test_faults_and_the_plugin_need_no_extra() -> None:
    """Of `faults` only what runs a tutorial, strategies and Perfetto's traces do."""
    extras = [each.partition(">=")[0] for each in PROJECT["project"]["optional-dependencies"]["tutorials"]]
    others = {"tutorial", "tutorial_target", "strategies", "perfetto", "sitecustomize"}
    files = [file for file in (ROOT / "faults").rglob("*.py") if file.stem not in others]
    modules = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files]
    assert len(modules) > 90
    program = f"import sys; sys.modules.update(dict.fromkeys({extras})); import reference.world, {', '.join(modules)}"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
