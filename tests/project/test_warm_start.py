"""Programs that start from a process with torch are what they are when they start from nothing."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faults.ledger.run_files import renewed
from faults.plan import Plan
from tests.preforked.warm_start import WarmPython

ROOT = Path(__file__).parents[2]
fork_exec = subprocess._fork_exec  # type: ignore[attr-defined]
Both = Callable[[Callable[[], Any]], Any]

pytestmark = pytest.mark.long

# Prints all that a program can see of its start; and what `multiprocessing` gives to the processes that it spawns.
LOOK = """
import json, multiprocessing, os, resource, signal, sys, tempfile
from pathlib import Path

def lines(file, *names):
    return [line.split() for line in Path(file).read_text().splitlines() if line.split(":")[0] in names]

def look():
    return {
        "argv": sys.argv,
        "command": list(filter(None, Path("/proc/self/cmdline").read_text().split("\\0"))),
        "environment": sorted(filter(None, Path("/proc/self/environ").read_text().split("\\0"))),
        "variables": dict(os.environ),
        "flags": str(sys.flags),
        "folder": os.getcwd(),
        "hooks": [type(hook).__name__ for hook in (sys.excepthook, sys.exit, os.kill, os._exit)],
        "limits": [resource.getrlimit(number) for number in range(16)],
        "main": [str(vars(sys.modules["__main__"]).get(name)) for name in ("__file__", "__name__", "__package__")],
        "multiprocessing": multiprocessing.process.ORIGINAL_DIR,
        "open": sorted(n for n in map(int, os.listdir("/proc/self/fd")) if os.path.exists(f"/proc/self/fd/{n}")),
        "orig_argv": sys.orig_argv,
        "parent": os.getppid(),
        "path": sys.path,
        "session": [os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid(), os.getpgrp() == os.getpgid(os.getppid())],
        "signals": lines("/proc/self/status", "SigBlk", "SigIgn", "SigCgt", "Umask", "Threads"),
        "streams": [(each.name, each.encoding, each.errors, each.line_buffering) for each in (sys.stdout, sys.stderr)],
        "temporary": tempfile.gettempdir(),
        "torch": sorted(name for name in sys.modules if name.partition(".")[0] == "torch"),
    }

def child(pipe):
    import torch
    pipe.send({"argv": sys.argv, "file": sys.modules["__main__"].__file__, "path": sys.path, "folder": os.getcwd()})

if __name__ == "__main__":
    seen = {"stdin": sys.stdin.read(), **look()}
    import torch.distributed.rpc
    seen["threads"] = torch.get_num_threads(), torch.__spec__.name, torch.distributed.rpc.__spec__.name
    seen["loader"] = type(torch.__loader__).__name__, type(torch.__spec__.loader).__name__
    if "spawn" in sys.argv:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=child, args=(theirs,))
        process.start()
        seen["spawned"] = ours.recv()
        process.join()
    print(json.dumps(seen))
"""


@pytest.fixture
def warm(warm_start: None, warm_python: WarmPython) -> WarmPython:
    return warm_python


@pytest.fixture
def both(warm: WarmPython, monkeypatch: pytest.MonkeyPatch) -> Both:
    """Return a function that starts a program from nothing, and from the process with torch, and compares."""

    def compare(start: Callable[[], Any]) -> Any:
        before = warm.started
        found = start()
        assert warm.started == before + 1, "it started from nothing"
        with monkeypatch.context() as patch:
            patch.setattr(subprocess, "_fork_exec", fork_exec)
            for name, wanted in start().items():
                assert found[name] == wanted, name
        assert warm.started == before + 1
        return found

    return compare


@pytest.fixture
def look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "looks.py").write_text(LOOK)
    return tmp_path


WAYS = {
    "file": ["looks.py", "spawn", "-a", "b c"],
    "text": ["-c", LOOK, "-m", ""],
    "module": ["-m", "looks", "x"],
}


def seen(command: list[str], **options: Any) -> Any:
    variables = {**os.environ, **options.pop("variables", {})}  # without what readline adds to those of C
    options |= {"capture_output": True, "text": True, "input": "1\n2"}
    done = subprocess.run([sys.executable, *command], env=variables, **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("way", WAYS)
def test_a_program_finds_all_as_if_it_had_started_from_nothing(way: str, look: Path, both: Both) -> None:
    found = both(lambda: seen(WAYS[way]))
    assert found["stdin"] == "1\n2"
    assert found["torch"] == []
    assert found["parent"] == os.getpid()


def test_it_inherits_what_popen_says(look: Path, both: Both) -> None:
    (look / "elsewhere").mkdir()
    (look / "elsewhere/looks.py").write_text(LOOK)
    reader, writer = os.pipe()
    variables = {"PYTHONPATH": "lib:/nowhere", "NEW": "ä\n=", "TMPDIR": str(look)}
    options = {"cwd": "elsewhere", "variables": variables, "pass_fds": [reader], "start_new_session": True}
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGTERM])
    handled = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limit[1]))
    try:
        found = both(lambda: seen(["looks.py"], **options))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGHUP, handled)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        os.close(reader)
        os.close(writer)
    assert found["session"][:2] == [True, True]
    assert found["folder"] == str(look / "elsewhere")
    assert reader in found["open"]
    assert writer not in found["open"]


def test_a_plan_s_program_finds_all_as_well(look: Path, both: Both) -> None:
    """What starts with Python under FAULTS_RUN starts, and installs the plan when the program imports torch."""
    (look / "looks.py").write_text(
        f"{LOOK}    from faults import hook\n    print(bool(hook.present()), look()['hooks'])"
    )
    with renewed(Plan(), look / "run") as place:
        variables = {"FAULTS_RUN": str(place), "PYTHONPATH": str(ROOT / "faults/startup")}

        def start() -> Any:
            command, env = [sys.executable, "looks.py"], {**os.environ, **variables}
            done = subprocess.run(command, env=env, capture_output=True, text=True, input="")
            assert done.returncode == 0, done.stderr
            said, installed = done.stdout.splitlines()
            return {**json.loads(said), "installed": installed, "stderr": done.stderr}

        found = both(start)
    assert found["installed"].startswith("True")
    assert f"the plan of {place} is at work" in found["stderr"]


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        ("raise SystemExit(7)", 7, ""),
        ("import sys; sys.exit('no more')", 1, "no more\n"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, ""),
        ("import atexit, os; atexit.register(os.write, 2, b'left\\n'); raise KeyError", 1, "left\n"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGINT); print(1)", -signal.SIGINT, "KeyboardInterrupt\n"),
    ],
)
def test_it_ends_as_ever(text: str, status: int, said: str, warm: WarmPython) -> None:
    before = warm.started
    done = subprocess.run([sys.executable, "-c", text], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert done.returncode == status
    assert warm.started == before + 1
    assert done.stderr.endswith(said)


def test_two_programs_share_no_random_numbers(warm: WarmPython) -> None:
    text = "import random, torch, numpy, uuid; print(random.random(), numpy.random.rand(), uuid.uuid4(), torch.rand(1))"
    one, two = (subprocess.check_output([sys.executable, "-c", text], text=True).split() for _ in range(2))
    assert [first == second for first, second in zip(one, two, strict=True)] == [False, False, False, True]


@pytest.mark.parametrize(
    ("words", "variables", "options"),
    [
        (["-S", "-c", "pass"], {}, {}),
        (["-c", "pass"], {"PYTHONUTF8": "1"}, {}),
        (["-c", "pass"], {"OMP_NUM_THREADS": "2"}, {}),
        (["-c", "pass"], {}, {"close_fds": False}),
        (["-c", "pass"], {}, {"umask": 0o77}),
        (["-c", "pass", " " * 100_000], {}, {}),
    ],
)
def test_what_a_fork_cannot_be_starts_from_nothing(
    words: list[str], variables: dict[str, str], options: dict[str, Any], warm: WarmPython
) -> None:
    before = warm.started
    subprocess.run([sys.executable, *words], check=True, env={**os.environ, **variables}, **options)
    assert warm.started == before


def test_a_program_goes_on_when_the_process_that_has_started_it_ends(
    warm: WarmPython, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = WarmPython()
    try:
        monkeypatch.setattr(subprocess, "_fork_exec", own.fork_exec)
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as program:
            own.end()
            assert program.poll() is None
            program.communicate(b"\n")
        assert program.returncode == 0
    finally:
        own.end()


@pytest.mark.cold
def test_a_cold_test_starts_from_nothing(warm_start: None) -> None:
    assert subprocess._fork_exec is fork_exec  # type: ignore[attr-defined]
