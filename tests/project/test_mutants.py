"""Mutants: each can be planted, and the gate tells killed mutants from surviving ones."""

from __future__ import annotations

import os
import py_compile
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

import tests.mutants.__main__ as main_of_gate
from tests.mutants import gate, nearest, trial
from tests.mutants.catalog import MUTANTS, read
from tests.mutants.checkout import NoCheckout, copied, copied_again, files_of, write
from tests.mutants.gate import Unhealthy, control, trials
from tests.mutants.mutant import Mutant, Stale
from tests.support.processes import descendants_of, end, left_after

ROOT = Path(__file__).parents[2]


# A test for each file, not for each of the mutants or killers: each of xdist's workers collects every test.
@pytest.mark.always
@pytest.mark.parametrize("file", sorted({mutant.places[0][0] for mutant in MUTANTS}))
def test_every_mutant_can_be_planted(file: str) -> None:
    of_file = [mutant for mutant in MUTANTS if mutant.places[0][0] == file]
    assert {mutant.name: why for mutant in of_file if (why := not_plantable(mutant))} == {}


def not_plantable(mutant: Mutant) -> str:
    """Say what is wrong with a mutant; empty if nothing is."""
    texts = {file: (ROOT / file).read_text() for file, _, _ in mutant.places}
    for place, (file, _, _) in enumerate(mutant.places):
        if not file.startswith(("reference/", "faults/", "torch_rpc_reference_", "examples/retries/")):
            return f"{file} is no source file"
        try:
            texts[file] = mutant.planted(texts[file], place)
        except Stale as error:
            return str(error)
    return "" if mutant.killers else "wanted the tests that have to notice it"


def test_each_mutant_has_its_own_name() -> None:
    assert [name for name, count in Counter(each.name for each in MUTANTS).items() if count > 1] == []


def mutant(name: str, old: str, new: str, *killers: str) -> Mutant:
    return Mutant(name, (("sums.py", old, new),), killers or ("test_sums.py::test_add",), "an example")


def test_a_paragraph_that_is_no_mutant_is_shown() -> None:
    with pytest.raises(ValueError, match=r"^got 'lost', wanted '=== FILE' or 'NAME: MISTAKE'$"):
        list(read("=== faults/c.py\n\nlost\n-    return x\n"))


class TestStale:
    @pytest.mark.parametrize(
        ("text", "new", "said"),
        [
            ("a = 1\n", "b", "occurs 0 times in sums.py, wanted 1"),
            ("return x\nreturn x\n", "return y", "occurs 2 times in sums.py, wanted 1"),
            ("return x\n", "return (", "no Python"),
        ],
    )
    def test_a_stale_text_cannot_be_planted(self, text: str, new: str, said: str) -> None:
        with pytest.raises(Stale, match=said):
            mutant("stale", "return x", new).planted(text)

    def test_every_place_is_planted(self, tmp_path: Path) -> None:
        places = (("sums.py", "return x", "return y"), ("twin.py", "x + 1", "x + 2"))
        twin = replace(mutant("shared", "", ""), places=places)
        (tmp_path / "sums.py").write_text("def f(x, y):\n    return x\n")
        (tmp_path / "twin.py").write_text("def f(x):\n    return x + 1\n")
        twin.plant(tmp_path)
        assert "return y" in (tmp_path / "sums.py").read_text()
        assert "x + 2" in (tmp_path / "twin.py").read_text()
        (tmp_path / "sums.py").write_text("def f(x, y):\n    return x\n")
        with pytest.raises(Stale, match=r"shared: the text to replace occurs 0 times in twin\.py"):
            twin.plant(tmp_path)
        (tmp_path / "sums.py").unlink()
        with pytest.raises(Stale, match=r"shared: there is no sums\.py"):
            twin.plant(tmp_path)


SUMS = """
def add(a, b):
    return a + b


def twice(a):
    return a * 2
"""

TESTS = """
import multiprocessing.forkserver
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from sums import add, twice


def test_add():
    assert Path(tempfile.gettempdir()) == Path.cwd().parent  # which goes with the copy
    assert add(1, 2) == 3


class TestTwice:
    @pytest.mark.parametrize("number", [0, 2])
    def test_known(self, number):
        assert twice(number) == number + number


def test_skipped():
    pytest.skip("not here")


@pytest.fixture
def tidy():
    yield
    assert twice(1) == 2


@pytest.fixture
def made():
    assert twice(1) == 2


@pytest.fixture
def awaited():
    if add(1, 2) != 3:
        threading.Event().wait()


def test_with_awaited(awaited):
    threading.Event().wait(1.5)


def test_with_tidy(tidy):
    assert add(0, 0) == 0


def test_with_made(made):
    assert add(0, 0) == 0


def test_hangs():
    if add(1, 2) != 3:
        Path("../hangs").touch()
        threading.Event().wait()


def tell(pipe):
    main = [name for name in vars(sys.modules["__main__"]) if not name.startswith("__")]
    threads = os.environ.get("OMP_NUM_THREADS")
    pipe.send((os.getcwd(), os.environ.get("TOLD"), threads, "mailbox" in sys.modules, main))


def test_a_forkserver(monkeypatch, tmp_path):
    # The first is the spare process, and what that forks finds everything as in one that was started for it.
    for number, spare in enumerate([True, False]):
        monkeypatch.setenv("TOLD", str(number))
        monkeypatch.chdir(tmp_path)
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["mailbox"])
        ours, theirs = context.Pipe()
        process = context.Process(target=tell, args=(theirs,))
        process.start()
        assert ours.recv() == (str(tmp_path), str(number), os.environ.get("OMP_NUM_THREADS"), True, ["main"])
        process.join()
        server = multiprocessing.forkserver._forkserver
        assert (b"preforked_pytest.py" in Path(f"/proc/{server._forkserver_pid}/cmdline").read_bytes()) is spare
        server._stop()
    assert add(1, 2) == 3


def test_writes():
    Path("new").write_text("")
    with Path("sums.py").open("a") as file:
        file.write("# more")


def test_leaves_a_process():
    process = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    Path("../../sleeper").write_text(str(process.pid))
    assert add(1, 2) == 3
"""


@pytest.fixture(autouse=True)
def _own_temporary_files(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies are made in this folder. Its path is short, because they have sockets."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("copies")))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny project, in a checkout of its own."""
    root = tmp_path_factory.mktemp("project")
    (root / "sums.py").write_text(SUMS)
    (root / "test_sums.py").write_text(TESTS)
    (root / "conftest.py").write_text(
        "from hypothesis import settings\n\nsettings.register_profile('whole', max_examples=100)\n"
    )
    subprocess.run(["git", "init", "-q", str(root)], check=True, timeout=60)
    return root


def test_a_changed_file_of_a_copy_is_compiled_again(project: Path, tmp_path: Path) -> None:
    """Even if its size and time stay the same. The copies share each file until it is written."""
    with copied(project, tmp_path) as original:
        compiled = Path(py_compile.compile(str(original / "sums.py"), doraise=True) or "")
        with copied_again(original) as place:
            own = place / compiled.relative_to(original)
            assert own.samefile(compiled)
            write(place / "sums.py", SUMS.replace("a + b", "a - b"))
            assert not own.exists()
        assert compiled.exists()
        assert (original / "sums.py").read_text() == SUMS


def test_a_folder_without_git_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoCheckout, match="is no checkout of git"):
        files_of(tmp_path)


@pytest.mark.long
def test_only_a_failing_body_or_leak_check_kills_a_mutant(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant counts as killed only if a test fails in its body or in its leak check."""
    monkeypatch.setattr(gate, "PRELOADED", ("pytest",))
    few_seconds = replace(trial.FIRST_FAILURE, test=3)
    minus = ("return a + b", "return a - b")
    triple = ("return a * 2", "return a * 3")
    tried = [
        mutant("killed", *minus),
        mutant("parameter", *triple, "test_sums.py::TestTwice"),
        mutant("teardown", *triple, "test_sums.py::test_with_tidy"),
        mutant("survivor", *triple),
        mutant("set-up", *triple, "test_sums.py::test_with_made"),
        mutant("import", "def add(a, b):", "def plus(a, b):"),
        mutant("stale", "return a / b", "return a"),
        mutant("slow", *minus, "test_sums.py::test_hangs"),
        replace(mutant("hangs", *minus, "test_sums.py::test_hangs"), hangs=True),
        mutant("untidy", *minus, "test_sums.py::test_leaves_a_process"),
        mutant("forked", *minus, "test_sums.py::test_a_forkserver"),
        mutant("fork that passes", *triple, "test_sums.py::test_a_forkserver"),
    ]
    found = {bug.name: trial for bug, trial in trials(project, tried, 2, extent=few_seconds)}
    assert {name: (each.verdict, each.failed) for name, each in found.items()} == {
        "killed": ("killed", ("test_sums.py::test_add",)),
        "parameter": ("killed", ("test_sums.py::TestTwice::test_known[2]",)),
        "teardown": ("killed", ("test_sums.py::test_with_tidy",)),
        "survivor": ("survived", ()),
        "set-up": ("broken", ()),
        "import": ("broken", ()),
        "stale": ("stale", ()),
        "slow": ("broken", ("test_sums.py::test_hangs",)),
        "hangs": ("killed", ("test_sums.py::test_hangs",)),
        "untidy": ("killed", ("test_sums.py::test_leaves_a_process",)),
        "forked": ("killed", ("test_sums.py::test_a_forkserver",)),
        "fork that passes": ("survived", ()),
    }
    assert "occurs 0 times" in found["stale"].said
    sleeper = int(Path(tempfile.gettempdir(), "sleeper").read_text())
    assert left_after({sleeper}, 10) == set()  # the kernel may still be ending what was killed


# The command, for a project with one bug, which is found by a test that does not end.
ENDLESS = """
import sys
from pathlib import Path
from tests.mutants import __main__ as command, checkout, gate
from tests.mutants.mutant import Mutant
checkout.MEMORY, checkout.ENOUGH = Path(sys.argv[2]), 0
gate.PRELOADED = ("pytest",)
command.ROOT = Path(sys.argv[1])
command.MUTANTS = [Mutant("endless", (("sums.py", "a + b", "a - b"),), ("test_sums.py::test_hangs",), "ends", True)]
sys.exit(command.main(["--control", "0"]))
"""


def test_a_gate_that_is_ended_leaves_no_file_and_no_process(project: Path, tmp_path: Path) -> None:
    variables = {name: value for name, value in os.environ.items() if name != "TMPDIR"}
    command = [sys.executable, "-c", ENDLESS, str(project), str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, env=variables, stderr=subprocess.PIPE, text=True) as gate_process:
        started = set[int]()
        try:
            due = time.monotonic() + 60
            while not list(tmp_path.glob("mutants_*/mutant-*/hangs")):
                assert gate_process.poll() is None
                assert time.monotonic() < due
            started = descendants_of(gate_process.pid)
            gate_process.send_signal(signal.SIGTERM)
            _, said = gate_process.communicate(timeout=20)  # the test's own limit is 30 s
        finally:
            gate_process.kill()
            end(started)
    assert gate_process.returncode == 130
    assert said == "interrupted\n"
    assert list(tmp_path.iterdir()) == []
    assert left_after(started, 10) == set()


@pytest.mark.long
def test_healthy_killers_have_to_pass(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "PRELOADED", ("pytest",))
    assert control(project, ["test_sums.py::test_add", "test_sums.py::TestTwice"], workers=2) > 0
    with pytest.raises(Unhealthy, match=r"tests changed files that all copies share: sums\.py$"):
        control(project, ["test_sums.py::test_writes"], workers=1)
    unknown = mutant("unknown", "a + b", "a - b", "test_sums.py::test_nothing")
    with pytest.raises(Unhealthy, match=r"skipped here: test_sums\.py::test_skipped"):
        control(project, ["test_sums.py::test_add", "test_sums.py::test_skipped"], workers=1)
    for trying in (lambda: control(project, ["test_sums.py::test_nothing"]), lambda: [*trials(project, [unknown])]):
        with pytest.raises(Unhealthy, match=r"pytest does not find all the killers: [^$]*not found: \S+::test_nothing"):
            trying()
    (project / "test_sums.py").write_text(TESTS.replace("== 3", "== 4"))
    try:
        with pytest.raises(Unhealthy, match=r"killers fail without any bug: test_sums\.py::test_add"):
            control(project, ["test_sums.py::test_add"], workers=1)
    finally:
        (project / "test_sums.py").write_text(TESTS)


@pytest.mark.long
def test_a_trial_whose_time_is_up_proves_nothing_unless_a_set_up_has_hung(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "PRELOADED", ("pytest",))
    tests = ("test_sums.py::test_with_awaited", "test_sums.py::TestTwice")
    tried = [
        mutant("hung", "return a + b", "return a - b", *tests),
        mutant("in time", "return a * 2", "return a * 3", *tests),
    ]
    found = trials(project, tried, 2, extent=replace(trial.SAMPLED, test=10, begin=1))
    assert {bug.name: trial.verdict for bug, trial in found} == {"hung": "broken", "in time": "survived"}


def test_no_trial_begins_after_the_time_is_up(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "PRELOADED", ("pytest",))
    assert list(trials(project, [mutant("m", "a + b", "a - b")], workers=1, seconds=0.0)) == []


@pytest.mark.parametrize(
    ("limits", "seconds"),
    [("--seconds 1", 1), ("--seconds 1 --until 9e9", 1), ("--until 1", 30), ("--seconds 40 --until 1", 30)],
)
def test_a_gate_in_which_no_trial_began_has_not_passed(
    limits: str, seconds: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A time that is over already leaves half a minute."""
    monkeypatch.setattr(main_of_gate, "trials", lambda *_: iter(()))
    monkeypatch.setattr("reference.system.interrupts.listen", lambda: None)
    assert main_of_gate.main([MUTANTS[0].name, "--control", "0", *limits.split()]) == 1
    assert f"error: no trial began within {seconds} s" in capsys.readouterr().err


def test_the_mutants_nearest_to_a_change_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file itself, then a killer's file, then all others."""
    own = Mutant("own", (("faults/hook.py", "a", "b"),), ("tests/a.py::test_it",), "a mistake")
    far = replace(own, name="far", places=(("faults/leaks.py", "a", "b"),))
    near = replace(far, name="near", killers=("tests/b.py::test_it",))
    monkeypatch.setattr(nearest, "changed", lambda: frozenset({"faults/hook.py", "tests/b.py"}))
    assert [each.name for each in nearest.nearest([far, near, own])] == ["own", "near", "far"]
    monkeypatch.setattr(nearest, "changed", lambda: None)
    assert len(nearest.nearest([far, near, own])) == 3, "it cannot be told what has changed"
