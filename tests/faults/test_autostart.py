"""Programs that find their plan only by FAULTS_RUN, where the package is installed; and the cost for all other
programs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from faults.cli.main import main
from faults.script.autostart import SAID, VARIABLE, WHOLE_LINES
from faults.script.script import environment_for
from tests.support.script_runs import own

ROOT = Path(__file__).parents[2]


def build(kind: str, place: Path) -> Path:
    """Make the wheel or the sdist, offline, from a copy of the checkout."""
    source = place / kind
    source.mkdir()
    ours = [path.name for path in ROOT.glob("torch_rpc_reference_*.py")]
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "faults.pth", *ours):
        shutil.copy(ROOT / name, source / name)
    for name in ("faults", "reference"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    make = f"from setuptools import build_meta; build_meta.build_{kind}({str(place)!r})"
    subprocess.run([sys.executable, "-c", make], cwd=source, check=True, capture_output=True)
    return next(place.glob({"wheel": "*.whl", "sdist": "*.tar.gz"}[kind]))


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Make an environment with this one's packages and this project's wheel, and return its Python."""
    place = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place / "venv")], check=True)
    site = next((place / "venv/lib").glob("python*")) / "site-packages"
    (site / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n{sysconfig.get_path('platlib')}\n")
    with zipfile.ZipFile(build("wheel", place)) as wheel:
        wheel.extractall(site)
    return str(place / "venv/bin/python")


def ran(python: str, *words: str, cwd: str | Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python with these words and variables, without the checkout on its path, and with little noise."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", VARIABLE, SAID)}
    environment = {**kept, "TP_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", **variables}
    return subprocess.run([python, *words], env=environment, cwd=cwd, capture_output=True, text=True, timeout=100)


def said(python: str, text: str, **variables: str) -> str:
    done = ran(python, "-c", text, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout


def said_uninstalled(text: str, run: Path) -> str:
    """Run the text under the variable by a Python that finds the package, and modules in ``run``, by its path only."""
    path = os.pathsep.join(map(str, [ROOT / "faults" / "startup", run, ROOT]))
    return said(sys.executable, text, PYTHONPATH=path, **{VARIABLE: str(run)})


@pytest.mark.long
def test_torchrun_runs_under_a_plan_as_documented(python: str, tmp_path: Path) -> None:
    """Run prepare; FAULTS_RUN=DIR torchrun ...; check. A relative path works, too."""
    run = tmp_path / "run"
    assert main(["prepare", str(run), "--plan", "Duplicate site=__main__:greet role=worker1 nth=2"]) == 0
    words = ("-m", "torch.distributed.run", "--nproc-per-node", "2", own("greet.py", tmp_path))
    done = ran(python, *words, cwd=tmp_path, **{VARIABLE: "run"})
    assert done.returncode == 0, done.stderr
    assert "worker1 was counted [1, 2, 4]" in done.stdout
    checked = ran(python, "-m", "faults", "check", str(run), cwd="/")
    assert checked.returncode == 3, checked.stderr
    assert re.search("^pass .* fired, evidence$", checked.stdout, re.MULTILINE)
    assert "verdict: unknown" in checked.stdout


LOADED = "import sys; print(*[m for m in sys.modules if m.split('.')[0] in ('faults', 'torch')], sys.meta_path)"


def test_without_the_variable_nothing_happens(python: str, tmp_path: Path) -> None:
    plain, installed = said(python, LOADED), said(python, LOADED, **{VARIABLE: str(tmp_path)})
    assert "faults" not in plain
    assert "torch" not in plain
    loaded, _, finders = installed.partition("[")
    assert set(loaded.split()) == set()  # a program may have a `faults` of its own
    assert "faults.script.autostart." in finders
    again = said(python, f"import faults; {LOADED}", **{VARIABLE: str(tmp_path)}).partition("[")[0]
    modules = ("script", "script.autostart", "script.stacks")
    assert set(again.split()) == {"faults", *(f"faults.{name}" for name in modules)}


@pytest.mark.parametrize(("before", "collecting"), [("enable", True), ("disable", False)])
def test_torch_is_imported_without_collections_and_keeps_its_loader(
    before: str, collecting: bool, tmp_path: Path
) -> None:
    (tmp_path / "torch.py").write_text("import gc\n\nduring = gc.isenabled()\n")
    text = (
        f"import gc; gc.{before}(); import torch; loaders = {{torch.__loader__, torch.__spec__.loader}}; "
        "print(torch.during, gc.isenabled(), *(type(each).__name__ for each in loaders))"
    )
    assert said_uninstalled(text, tmp_path) == f"False {collecting} SourceFileLoader\n"


def test_a_program_may_look_for_torch_where_there_is_none(tmp_path: Path) -> None:
    text = "import sys, importlib.util as u; sys.path.clear(); print(u.find_spec('torch'))"
    assert said_uninstalled(text, tmp_path) == "None\n"


def test_collections_look_at_what_the_program_made_but_not_at_torch(tmp_path: Path) -> None:
    """The program's objects are in cycles, which a collection at the end of Python takes apart."""
    (tmp_path / "torch.py").write_text("made = []\nmade.append(made)\n")
    text = (
        "import gc; own = []; own.append(own); import torch; late = []; late.append(late); seen = gc.get_objects();"
        "print(*(any(each is known for known in seen) for each in (own, torch.made, late)));"
        "end = type('End', (), {'__del__': lambda self: print('destructor')}); own.append(end()); del own, seen;"
        "print(gc.collect() > 0)"
    )
    assert said_uninstalled(text, tmp_path) == "True False True\ndestructor\nTrue\n"


def test_another_thread_may_fill_a_dictionary_while_collections_are_told_of_it(tmp_path: Path) -> None:
    """It may between any two lines; here a trace does so."""
    (tmp_path / "torch.py").write_text("")
    text = (
        "import sys; own = {0: []}\n"
        "def fill(*_): own[len(own)] = []; return fill\n"
        "sys.settrace(lambda frame, *_: fill if frame.f_code.co_filename.endswith('autostart.py') else None)\n"
        "import torch; print(len(own) > 1)"
    )
    assert said_uninstalled(text, tmp_path) == "True\n"


@pytest.mark.long
def test_a_variable_that_is_left_exported_is_reported_once_per_program(python: str, tmp_path: Path) -> None:
    """Programs that it starts do not report it again."""
    assert main(["prepare", str(tmp_path / "run"), "--plan", "Duplicate site=shop:pay"]) == 0
    text = "import sys, subprocess, torch.distributed.rpc as r; print(type(r.shutdown).__name__, flush=True)\n"
    again = f"subprocess.run([sys.executable, '-c', {text!r}], check=True)"
    (tmp_path / "twice.py").write_text(text + again)
    (tmp_path / "test_it.py").write_text("from faults.run.runs import scope\n\n\ndef test_it():\n    pass\n")
    plan = f"the plan of {tmp_path / 'run'} is at work in this program, and in what it starts"
    pytest_of_it = ["-m", "pytest", "test_it.py", "-p", "no:cacheprovider", "-n", "0"]  # which hides it later
    for words, wanted in ((["twice.py"], "partial\npartial\n"), (pytest_of_it, "1 passed")):
        done = ran(python, *words, cwd=tmp_path, **{VARIABLE: str(tmp_path / "run")})
        assert done.returncode == 0, done.stderr
        assert wanted in done.stdout
        assert done.stderr.splitlines() == [f"torch-rpc-reference: FAULTS_RUN is set: {plan}"]


@pytest.mark.long
@pytest.mark.parametrize("module", ["run.runs", "ledger.record"])
def test_a_program_may_import_any_module_of_this_project_first(module: str, tmp_path: Path) -> None:
    """This holds even for one that imports RPC, at which the plan is installed, and which the plan itself needs."""
    assert main(["prepare", str(tmp_path / "run"), "--plan", "Duplicate site=shop:pay"]) == 0
    text = f"import faults.{module}, torch.distributed.rpc as r; print(type(r.shutdown).__name__)"
    assert said_uninstalled(text, tmp_path / "run") == "partial\n"


@pytest.mark.long
def test_a_module_that_the_plan_needs_is_not_executed_again(tmp_path: Path) -> None:
    """A second one would not know of the plan."""
    assert main(["prepare", str(tmp_path / "run"), "--plan", "Duplicate site=shop:pay"]) == 0
    text = (
        "import faults.hook as hook, torch.distributed.rpc as r; hook.remove(); "
        "print(type(r.shutdown).__name__, type(hook.__spec__.loader).__name__)"
    )
    assert said_uninstalled(text, tmp_path / "run") == "function SourceFileLoader\n"


@pytest.mark.parametrize("module", ["faults", pytest.param("torch.distributed.rpc", marks=pytest.mark.long)])
def test_an_import_that_goes_on_meanwhile_asks_every_finder(module: str, tmp_path: Path) -> None:
    """Another thread may import the module; here a finder of the program does so, when it is asked."""
    assert main(["prepare", str(tmp_path / "run"), "--plan", "Duplicate site=shop:pay"]) == 0
    (tmp_path / "run" / "late.py").write_text("")
    text = (
        "import sys; from importlib.machinery import PathFinder\n"
        "class Finder:\n"
        "    def find_spec(name, path, target=None):\n"
        f"        if name == 'late': import {module}\n"
        "sys.meta_path.insert(sys.meta_path.index(PathFinder), Finder)\n"
        "import late; print(late.__name__)"
    )
    assert said_uninstalled(text, tmp_path / "run") == "late\n"


def test_a_missing_folder_is_reported(python: str, tmp_path: Path) -> None:
    """A plan that is silently ignored would be worse."""
    done = ran(python, "-c", "import torch.distributed.rpc", **{VARIABLE: str(tmp_path / "nowhere")})
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("nowhere/plan.json cannot be read: No such file or directory")


def test_the_line_and_its_module_are_shipped(tmp_path: Path) -> None:
    with tarfile.open(build("sdist", tmp_path)) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"faults.pth", "setup.py", "faults/startup/sitecustomize.py", "faults/script/autostart.py"} <= names
    assert {"torch_rpc_reference_plugin.py", "torch_rpc_reference_startup.py"} <= names


def test_processes_that_print_into_one_file_write_whole_lines(tmp_path: Path) -> None:
    """Each read from such a pipe gives one write. Without its buffers Python would write a line's end by itself."""
    assert main(["prepare", str(tmp_path / "run"), "--healthy"]) == 0
    mine, theirs = os.pipe2(os.O_DIRECT)
    variables = {"PYTHONUNBUFFERED": "1", WHOLE_LINES: "1"}
    environment = {**os.environ, **environment_for(tmp_path / "run"), **variables}
    try:
        text = "print('one', 'line'); print('another one')"
        subprocess.run([sys.executable, "-c", text], env=environment, stdout=theirs, timeout=60, check=True)
        assert [os.read(mine, 1000) for _ in range(2)] == [b"one line\n", b"another one\n"]
    finally:
        os.close(mine)
        os.close(theirs)
