"""How the processes of a script end: what each end is recorded as, whoever starts it, and whether anybody reads it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from faults.judge.facts import Facts, how_all_ended
from faults.judge.rules import Judgement
from faults.ledger import ledger
from faults.ledger.record import COMMAND, Run
from faults.ledger.run_files import statuses
from faults.plan import Plan
from faults.run.runs import prepared
from faults.script.script import run_script
from tests.support.script_runs import own

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("plain_over_tcp")]

LOST = "Drop site=__main__:pay role=till nth=2 side=request"
GONE, RETURNED, LATE = "is gone without a word", "returned", "raised RuntimeError: RPCErr:1:RPC ran for more"


def played(program: str, place: Path, *how: str, plan: str = "seed=0") -> tuple[Run, Judgement]:
    """Run a program. Its command ends with status 0, whatever its roles do."""
    command = [sys.executable, own(program, place), *how]
    found, judgement = run_script(command, Plan.parse(plan), place / "run", deadline=60)
    assert found.ends[COMMAND].returned
    return found, judgement


def ended(found: Run, wanted: dict[str, str]) -> None:
    """Compare the beginnings of the texts that tell how roles ended."""
    texts = how_all_ended(Facts(found))
    assert {role: texts[role][: len(text)] for role, text in wanted.items()} == wanted, found.timeline


@pytest.mark.parametrize(
    ("how", "plan", "verdict", "shop", "till"),
    [
        ("rude", "seed=0", "unchecked", RETURNED, RETURNED),
        ("open", "seed=0", "unchecked", RETURNED, RETURNED),
        ("served", "seed=0", "unchecked", GONE, RETURNED),  # its parent ends it by SIGTERM
        ("strict", LOST, "wrong", "raised ", LATE),
        ("leaves", LOST, "wrong", "raised ", "exited with status 1"),  # from within the handler
        ("gone", LOST, "wrong", "raised ", GONE),
    ],
)
def test_a_role_is_judged_even_if_its_parent_ignores_its_exit_code(
    how: str, plan: str, verdict: str, shop: str, till: str, tmp_path: Path
) -> None:
    """A program that ends well although a role is lost needs a comparison: the verdict says so, and how."""
    found, judgement = played("stall.py", tmp_path, how, plan=plan)
    assert judgement.verdict == verdict, f"{judgement}\n{found.timeline}"
    ended(found, {"shop": shop, "till": till})
    lost = "and the command ended with status 0: --check, --same-output or --same-file says what is right"
    assert (lost in str(judgement)) == (verdict == "wrong")


@pytest.mark.parametrize(
    ("start", "how", "verdict", "end"),
    [
        *((start, "system-exit", "wrong", "exited with status 3") for start in ("popen", "fork", "spawn")),
        *((start, "hook", "wrong", "raised AssertionError: nobody is told") for start in ("popen", "fork", "spawn")),
        ("popen", "cancelled", "wrong", "raised CancelledError"),
        ("popen", "destructor", "unchecked", GONE),
        ("popen", "another-program", "unchecked", GONE),
        ("popen", "unreached", "unknown", ""),
    ],
)
def test_a_process_has_the_status_that_it_really_ended_with(
    start: str, how: str, verdict: str, end: str, tmp_path: Path
) -> None:
    """A role that the plan does not reach leaves no ledger to judge."""
    found, judgement = played("ends.py", tmp_path, start, how)
    assert judgement.verdict == verdict, f"{judgement}\n{found.timeline}"
    ended(found, {"shop": RETURNED, **({"till": end} if end else {})})
    assert ("till: no ledger" in str(judgement)) == (how == "unreached")


@pytest.mark.parametrize(
    ("how", "role", "end"),
    [
        ("interrupt", "shop", "was interrupted"),
        ("abort", "shop", GONE),
        ("outlives", "shop", GONE),  # by `os._exit`, soon after the command
        ("twice", "till", RETURNED),
    ],
)
def test_programs_may_start_and_end_their_processes_in_many_ways(how: str, role: str, end: str, tmp_path: Path) -> None:
    """A launcher without torch, signals, and two worlds at once, of which one lingers. Who is gone without a word is
    shown, and convicts nobody."""
    found, judgement = played("launched.py", tmp_path, how)
    assert judgement.verdict == "unchecked", f"{judgement}\n{found.timeline}"
    ended(found, {role: end})
    assert (Facts(found).last[role].process in found.gone) == (end != RETURNED)
    assert (f"{role} {GONE}, " in str(judgement)) == (end == GONE)


# A role of which a call has ended, whose callback has not run yet: the state of the process records it when asked.
ROLE = """
import sys
from pathlib import Path
from faults.inject.call.delivery import CalleeState
from faults.ledger.ledger import Ledger
from faults.script import process_end
ledger = Ledger(Path(sys.argv[1]), "till")
CalleeState.open = CalleeState(ledger, lambda: ledger.write("ok"))
process_end.watch(Path(sys.argv[1]))
"""


# An error that was caught and stored, as consoles and pytest do, does not end the process.
STORES = """
def store():
    try:
        raise ValueError
    except ValueError as error:
        sys.last_value = error
store()
"""


def test_the_ends_of_calls_are_recorded_before_the_process_ends(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", ROLE + STORES, str(tmp_path)], timeout=60, check=True)
    assert [each.event for each in ledger.read(tmp_path).events] == ["start", "ok", "exit"]


# A process that plays two roles, and its child, which has a file of its own at the number of its parent's.
TWICE = """
import os, sys
from pathlib import Path
from faults import hook
from faults.plan import Plan
from faults.run.runs import prepared
from faults.script import process_end
place = Path(sys.argv[1])
process_end.watch(place)
for role in ("till", "shop"):
    hook.activated(place, role, Plan())
[number] = [int(each.name) for each in Path("/proc/self/fd").iterdir() if each.resolve().suffix == ".status"]
if os.fork() == 0:
    os.dup2(os.open(place / "own", os.O_CREAT | os.O_WRONLY), number)
    if os.fork() == 0:
        os.write(number, b"text")
    else:
        os.wait()
    os._exit(0)
os.wait()
sys.exit(3)
"""


def test_a_status_is_recorded_even_if_the_process_aborts_afterwards_and_its_children_record_none(
    tmp_path: Path,
) -> None:
    """A thread of torch may abort it while C ends the process."""
    aborts = "import ctypes; libc = ctypes.CDLL(None); libc.on_exit(ctypes.cast(libc.abort, ctypes.c_void_p), None)"
    done = subprocess.run([sys.executable, "-c", aborts + TWICE, str(tmp_path)], timeout=60)
    assert done.returncode == -signal.SIGABRT
    assert list(statuses(tmp_path).values()) == [3]
    assert (tmp_path / "own").read_bytes() == b"text"


DAEMON = """
import os, sys
from pathlib import Path
from faults import hook
from faults.script import process_end

folder = Path.cwd()
process_end.watch(folder)
hook.activate(folder, "a")
if pid := os.fork():
    os.waitpid(pid, 0)
    os._exit(0)
os.closerange(3, 256)
files = [os.open("own", os.O_CREAT | os.O_WRONLY | os.O_APPEND) for _ in range(100)]
os.write(files[0], b"own")
sys.exit()
"""


def test_a_forked_daemons_own_file_gets_no_status(tmp_path: Path) -> None:
    """It closes what it has not opened, and then opens files, which have low numbers."""
    variables = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    place = prepared(Plan(), tmp_path)
    subprocess.run([sys.executable, "-c", DAEMON], cwd=place, env=variables, check=True, timeout=60)
    assert (tmp_path / "own").read_bytes() == b"own"
