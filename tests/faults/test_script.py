"""Programs of a user's own, which know nothing of faults: run unchanged under a plan until they end."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from torch.utils.data._utils import MP_STATUS_CHECK_INTERVAL

from faults.cli.main import main
from faults.cli.options import only_theirs
from faults.judge.facts import Facts, how_all_ended
from faults.ledger import Ledger
from faults.ledger.record import COMMAND
from faults.ledger.run_files import RESULTS
from faults.plan import Plan, PlanError
from faults.run.leftovers import GRACE, SHARED, adopting
from faults.script.autostart import VARIABLE
from faults.script.results import OUTPUT
from faults.script.script import grace_of, run_script
from reference.cli.options import BadInput
from tests.support import own_process
from tests.support.script_runs import own

DOUBLE = "Duplicate site=__main__:pay role=till nth=1"
LOST = "Drop site=__main__:pay role=till nth=1 side=request"

pytestmark = pytest.mark.usefixtures("plain_over_tcp")


@pytest.mark.long
def test_a_run_keeps_no_thread_and_no_open_file(tmp_path: Path) -> None:
    command = [sys.executable, own("strict.py", tmp_path), "process"]
    plan = Plan.parse("Crash site=__main__:pay role=till nth=2 when=before")
    run_script(command, plan, tmp_path / "first", deadline=60, bound=20)  # it opens what stays for all
    before = own_process.everything()
    run_script(command, plan, tmp_path / "second", deadline=60, bound=20)
    assert own_process.left_since(before) == []


@pytest.mark.parametrize("how", ["here", *(pytest.param(how, marks=pytest.mark.long) for how in ("process", "spawn"))])
def test_a_mistake_in_any_process_is_wrong(how: str, tmp_path: Path) -> None:
    """A program that finds its own result wrong has not ended cleanly."""
    command = [sys.executable, own("strict.py", tmp_path), how]
    found, judgement = run_script(command, Plan.parse(DOUBLE), tmp_path / "run", deadline=60, bound=20)
    assert judgement.verdict == "wrong", str(judgement)
    assert "till raised AssertionError: 12" in str(judgement)
    assert 0.0 < found.zero - found.start < found.seconds  # ends and events have one clock


@pytest.mark.long
def test_a_program_that_ends_beyond_its_bound_is_hung(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Its lost call takes a second until it fails."""
    place = ["--dir", str(tmp_path / "run")]
    script = ["--script", own("strict.py", tmp_path), "here"]
    assert main(["run", "--bound", "0.2", *place, "--plan", LOST, *script]) == 1
    assert capfd.readouterr().out.splitlines()[-1] == "verdict: hung"


def python(text: str, place: Path) -> tuple[str, str, list[str]]:
    """Return verdict, end and leaks of a program without RPC."""
    found, judgement = run_script([sys.executable, "-c", text], Plan(), place, deadline=20, bound=5)
    return judgement.verdict, found.ends[COMMAND].text, list(found.leaks)


@pytest.mark.parametrize(
    ("play", "bound", "end"),
    [("signal.pause()", 1, "still ran when the command had ended"), ("time.sleep(2.5)", 9, "is gone without a word")],
)
def test_a_role_that_outlives_a_killed_command_has_its_bound(play: str, bound: int, end: str, tmp_path: Path) -> None:
    text = (
        "import os, signal, time; from pathlib import Path; from faults.ledger import Ledger; r, w = os.pipe()\n"
        f"if not os.fork(): Ledger(Path(os.environ['{VARIABLE}']), 'till'); os.write(w, b'x'); {play}; os._exit(0)\n"
        "os.read(r, 1); os.kill(os.getpid(), 9)"
    )
    found, _ = run_script([sys.executable, "-c", text], Plan(), tmp_path, deadline=60, bound=bound)
    assert found.ends[COMMAND].text == "was killed by SIGKILL"
    assert how_all_ended(Facts(found))["till"] == end


def test_a_program_without_a_fault_may_run_beyond_the_patience(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is killed only when a failure would come too late, too."""
    found, _ = run_script([sys.executable, "-c", ""], Plan(), tmp_path / "first", patience=0.001)
    assert found.ends[COMMAND].text == "returned"
    monkeypatch.setattr("faults.script.script.LATER", 0.5)
    found, _ = run_script(["sleep", "1000"], Plan(), tmp_path / "second", patience=0.001, bound=0.5)
    assert found.ends[COMMAND].text == "was overdue after 1 s"


@pytest.mark.long
def test_processes_that_a_script_leaves_are_found_and_ended(tmp_path: Path) -> None:
    text = "import subprocess; print(subprocess.Popen(['sleep', '1000'], start_new_session={}).pid)"
    _, _, left = python(text.format(True), tmp_path)
    assert len(left) == 1
    assert left[0].startswith("sleep 1000 still runs (process ")
    assert not Path(f"/proc/{left[0].rpartition(' ')[2].rstrip(')')}").exists()
    # A process in the program's own session is named, too; it is ended with the program.
    assert len(python(text.format(False), tmp_path)[2]) == 1


@pytest.mark.parametrize("session", ["own", "same"])
def test_shared_memory_of_a_killed_script_is_removed(session: str, tmp_path: Path) -> None:
    """The script's resource tracker does so when all have ended that could need it. The child's session is another."""
    lock = """if True:
        import multiprocessing, os, signal, sys
        lock = multiprocessing.get_context("spawn").Lock()
        if not os.fork():
            if sys.argv[1] == "own":
                os.setsid()
            print(lock._semlock.name, flush=True)
            os.kill(os.getppid(), signal.SIGKILL)
            signal.pause()
        signal.pause()
    """
    command = [sys.executable, "-W", "ignore", "-c", lock, session]
    found, _ = run_script(command, Plan(), tmp_path / "run", deadline=60)
    assert found.ends[COMMAND].kind == "Killed"
    name = (tmp_path / "run" / RESULTS / OUTPUT).read_text().strip().removeprefix("/")
    assert name.startswith("mp-")
    assert not (SHARED / f"sem.{name}").exists()


@pytest.mark.long
def test_tensors_that_a_killed_script_has_shared_in_files_are_removed(tmp_path: Path) -> None:
    """torch's own resource tracker does so, two seconds after the script's end. It is not told as left."""
    share = """if True:
        import os, signal, torch
        torch.multiprocessing.set_sharing_strategy("file_system")
        shared = torch.ones(3).share_memory_()
        print(os.getpid(), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    found, _ = run_script([sys.executable, "-c", share], Plan(), tmp_path / "run", deadline=60)
    assert found.leaks == []
    pid = int((tmp_path / "run" / RESULTS / OUTPUT).read_text())
    assert [*SHARED.glob(f"torch_{pid}_*")] == []


@pytest.mark.long
def test_an_overdue_script_that_looks_like_a_resource_tracker_is_killed(tmp_path: Path) -> None:
    text = "import time; time.sleep(1000)  # from multiprocessing.resource_tracker import main;main("
    found, _ = run_script([sys.executable, "-c", text], Plan(), tmp_path / "run", deadline=1)
    assert found.ends[COMMAND].kind == "Overdue"


@pytest.mark.long
def test_what_an_overdue_script_had_to_end_by_itself_is_ended_and_not_told_as_left(tmp_path: Path) -> None:
    """As torchrun's ranks, which lead sessions of their own."""
    text = """if True:
        import subprocess, time
        print(subprocess.Popen(["sleep", "1000"], start_new_session=True).pid, flush=True)
        time.sleep(1000)
    """
    found, _ = run_script([sys.executable, "-c", text], Plan(), tmp_path / "run", deadline=2)
    assert found.ends[COMMAND].kind == "Overdue"
    assert found.leaks == []
    assert not Path("/proc", (tmp_path / "run" / RESULTS / OUTPUT).read_text().strip()).exists()


LACKING = """if True:
    import os
    import torch.distributed.autograd as dist_autograd
    import torch.distributed.rpc as rpc
    dist_autograd._get_debug_info = dict
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", "0"
    rpc.init_rpc("a", rank=0, world_size=1)
    try:
        rpc.shutdown()
    finally:
        assert not rpc._is_current_rpc_agent_set()
"""


@pytest.mark.long
def test_a_torch_that_lacks_a_count_is_no_mistake_of_the_programs_and_its_rpc_ends(tmp_path: Path) -> None:
    _, judgement = run_script([sys.executable, "-c", LACKING], Plan(), tmp_path / "run", deadline=60)
    assert judgement.verdict == "unknown"
    assert judgement.complaints[0].text.startswith("a: faults itself failed: KeyError: 'num_autograd_contexts'")


def test_children_of_a_killed_role_have_longer_to_end(tmp_path: Path) -> None:
    """A DataLoader's workers need it: they check every 5 s whether their parent still lives."""
    ledger = Ledger(tmp_path, "till")
    assert grace_of(tmp_path) == GRACE < MP_STATUS_CHECK_INTERVAL
    ledger.write("fired", fault=0, kind="Crash", pid=7)
    assert grace_of(tmp_path) > MP_STATUS_CHECK_INTERVAL
    echo = ["sh", "-c", "echo; exec cat"]
    with (
        adopting() as left,
        subprocess.Popen(echo, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as ending,
    ):
        ending.stdout.readline()  # type: ignore[union-attr]  # before it has begun, it has no name
        assert [" still runs (process " in line for line in left(0.0)] == [True]
        ending.stdin.close()  # type: ignore[union-attr]
        assert left(grace_of(tmp_path)) == []


def test_what_a_process_leaves_that_ends_while_it_is_waited_for_is_named() -> None:
    leaves = ["sh", "-c", "read line; sleep 1000 & exit 0"]
    with adopting() as left, subprocess.Popen(leaves, stdin=subprocess.PIPE, start_new_session=True) as ending:
        closing = threading.Timer(0.5, ending.stdin.close)  # type: ignore[union-attr]
        closing.start()
        (line,) = left(1.5)
        closing.join()
    assert line.startswith("sleep 1000 still runs (process ")


def test_a_script_gets_the_folder_and_its_own_python_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets the folder, its own PYTHONPATH, and its own sitecustomize. Nothing precedes its own modules."""
    (tmp_path / "sitecustomize.py").write_text("CUSTOM = __file__\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    text = (
        "import os, sys, sitecustomize, pathlib; "
        f"assert sitecustomize.CUSTOM == {str(tmp_path / 'sitecustomize.py')!r}; "
        f"assert os.environ['{VARIABLE}'] == {str(tmp_path / 'run')!r}; "
        f"assert sys.path[1] == {str(tmp_path)!r}, sys.path; "
        "assert 'torch_rpc_reference_startup' in sys.modules and 'torch' not in sys.modules; "
        "import faults; assert sys.path.index(str(pathlib.Path(faults.__file__).parent.parent)) > 1"
    )
    assert python(text, tmp_path / "run") == ("unknown", "returned", [])


def test_a_sitecustomize_that_fails_keeps_no_plan_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text("raise ValueError\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    text = "import sys; assert 'torch_rpc_reference_startup' in sys.modules"
    assert python(text, tmp_path / "run") == ("unknown", "returned", [])


def test_a_script_has_an_empty_standard_input(tmp_path: Path) -> None:
    """Of several runs the first would have all of it."""
    words = [sys.executable, "-m", "faults", "run", "--healthy", "--dir", str(tmp_path / "run"), "--script", "--"]
    words += [sys.executable, "-c", "import sys; sys.exit(len(sys.stdin.read()))"]
    done = subprocess.run(words, input="orders", capture_output=True, text=True, timeout=60, check=False)
    assert "the command returned" in done.stdout, done


def test_a_script_that_cannot_start_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="wanted `--script python -m"):
        only_theirs(["-m", "shop"], ())
    with pytest.raises(PlanError, match="need roles that are started by reference"):
        run_script(["true"], Plan.parse("Partition role=till direction=both"), tmp_path / "a")
    assert not (tmp_path / "a").exists()
