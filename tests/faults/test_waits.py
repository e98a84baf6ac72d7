"""A hung script says where each of its processes waits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import faults
from faults.cli.main import main
from faults.judge.rules import judge
from faults.ledger import record
from faults.script import stacks
from faults.script.script import environment_for
from faults.script.waits import asked, place_of, waits
from tests.support.script_runs import SCRIPTS

CURRENT = "Current thread 0x1 (most recent call first):\n"
LIBRARY = 'File "/usr/lib/python3.11/threading.py", line 327 in wait'
OWN = 'File "shop.py", line 7 in pay'
INSTALLED = 'File "/usr/lib/python3.11/site-packages/shop/__main__.py", line 3 in run'
OURS = f'File "{Path(faults.__file__).parent}/hook.py", line 9 in _shutdown'
NEIGHBOUR = f'File "{Path(faults.__file__).parent}-of-shops/shop.py", line 5 in sell'
TORCH = 'File "/venv/site-packages/torch/distributed/rpc/api.py", line 799 in rpc_sync'


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (f"{CURRENT}  {TORCH}\n  {OURS}\n  {OWN}\n", "shop.py:7 in pay"),
        (
            f'Thread 0x2 (most recent call first):\n  {LIBRARY}\n  File "/a/shop.py", line 9 in total\n\n'
            f'{CURRENT}  {TORCH}\n  {OWN}\n  File "/a/shop.py", line 1 in <module>\n',
            "shop.py:7 in pay, in another thread shop.py:9 in total",
        ),
        (f"{CURRENT}  {LIBRARY}\n", "threading.py:327 in wait"),
        (f"{CURRENT}  {LIBRARY}\n  {TORCH}\n  {INSTALLED}\n", "__main__.py:3 in run"),
        (f"{CURRENT}  {LIBRARY}\n  {NEIGHBOUR}\n", "shop.py:5 in sell"),
        ("Thread 0x1 (most recent call first):\n  <no Python frame>\n", "no line of Python"),
        ("", "no line of Python"),
        # Of more than 100 threads Python leaves out the oldest ones, and the main one among them.
        (f"Thread 0x2 (most recent call first):\n  {OWN}\n...\n", "in another thread shop.py:7 in pay"),
        (f"{CURRENT}  {OWN}\n  ...\n", "shop.py:7 in pay"),  # of more than 100 frames
    ],
)
def test_the_programs_own_lines_are_told(text: str, wanted: str) -> None:
    assert place_of(text) == wanted


@pytest.fixture
def started(tmp_path: Path) -> Iterator[int]:
    """The script's first process, when all its processes wait or will do so at once. Before they do, a process that
    has just been forked may start another program, which the signal would end."""
    (tmp_path / stacks.STACKS).touch()
    command = [sys.executable, str(SCRIPTS / "waiting.py")]
    environment = environment_for(tmp_path)
    process = subprocess.Popen(command, env=environment, start_new_session=True, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(4)] == [b"waits\n"] * 4
        yield process.pid
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_every_process_says_where_it_waits(started: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One holds the GIL, one is stopped, and one blocks every signal."""
    monkeypatch.setattr("faults.script.waits.ANSWER_SECONDS", 0.5)
    source = list(map(str.strip, (SCRIPTS / "waiting.py").read_text().splitlines()))
    line = {text: number for number, text in enumerate(source, 1)}  # of equal lines the last one
    sleeping = line["ctypes.PyDLL(None).sleep(1000)  # a signal ends it"]
    idle = f"waiting.py:{line['threading.Event().wait()']} in until_told"
    wanted = [
        f"waiting.py:{line['player.join()']} in <module>",
        f"waiting.py:{line['lock.acquire()']} in with_a_thread, in another thread {idle}",
        f"waiting.py:{sleeping} in with_the_gil",
        f"waiting.py:{line['os.kill(os.getpid(), signal.SIGSTOP)']} in stopped (stopped)",
        "no line of Python",
    ]
    due, found = time.monotonic() + 20, dict[str, str]()
    while sorted(found.values()) != sorted(wanted) and time.monotonic() < due:  # until all have begun to wait
        found = waits(tmp_path, {started: "master"})
    assert sorted(found.values()) == sorted(wanted)
    assert found[f"master (process {started})"] == wanted[0]
    assert idle.split()[0].split(":")[1] in (tmp_path / stacks.STACKS).read_text()


def test_a_process_has_time_to_answer_however_often_it_is_asked(started: int, tmp_path: Path) -> None:
    """A signal waits for a moment before it is handled."""
    assert "" not in [asked(started, tmp_path / stacks.STACKS) for _ in range(20)]


def test_a_process_that_does_not_handle_the_signal_is_not_asked(tmp_path: Path) -> None:
    """It may have started another program since it was found."""
    (tmp_path / stacks.STACKS).touch()
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            assert asked(process.pid, tmp_path / stacks.STACKS) == ""
            assert process.poll() is None
        finally:
            process.kill()
    assert process.returncode == -signal.SIGKILL


@pytest.mark.long
def test_an_overdue_script_is_told_with_its_places(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    place, script = str(tmp_path / "run"), ["--script", sys.executable, str(SCRIPTS / "waiting.py")]
    assert main(["run", "--healthy", "--deadline", "3", "--dir", place, *script]) == 3  # it starts no RPC
    told = capfd.readouterr().out.splitlines()
    found = record.read(place)
    [ends] = [check.text for check in judge(found).checks if check.name == "ends"]
    assert ends.startswith("the command missed the deadline; ")
    assert " waits at waiting.py:" in ends
    assert found.waits
    assert [name for name, where in found.waits.items() if f"{name} waits at {where}" not in told] == []
    assert found.ends["+command"].text == "was overdue after 3 s"


def test_a_program_that_uses_the_signal_keeps_it(tmp_path: Path) -> None:
    """Its handler is there before ours, for instance where Python is embedded."""
    text = (
        "import signal, sys; from pathlib import Path; from faults.script import stacks\n"
        "signal.signal(stacks.SIGNAL, lambda *_: print('mine', flush=True)); stacks.watch(Path(sys.argv[1]))\n"
        "signal.raise_signal(stacks.SIGNAL)\n"
    )
    (tmp_path / stacks.STACKS).touch()
    command = [sys.executable, "-c", text, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=SCRIPTS.parents[1])
    assert done.stdout == "mine\n", done.stderr
    assert done.returncode == 0, done.stderr
    assert (tmp_path / stacks.STACKS).read_text() == ""
