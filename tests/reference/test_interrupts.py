"""Ctrl-C, SIGTERM and SIGHUP of the commands: one line, one status, and nothing left, whenever they come."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from reference.system import interrupts
from reference.system.interrupts import held
from tests.support.processes import descendants_of, left_after

ALL = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class NotHandled(Exception):
    """A signal would have ended this process."""


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    """Restore this process's signal handlers after a test."""

    def not_handled(*_: object) -> None:
        raise NotHandled

    before = {number: signal.signal(number, not_handled) for number in ALL}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", ALL)
def test_each_signal_interrupts_what_listens(number: signal.Signals) -> None:
    interrupts.listen()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)


def test_several_signals_in_a_row_interrupt_once() -> None:
    """A second interrupt would stop the cleanup after the first."""
    interrupts.listen()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    try:
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        pytest.fail("interrupted again")


def test_a_later_signal_interrupts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "TOGETHER", 0.0)
    interrupts.listen()
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_a_signal_that_the_caller_ignores_stays_ignored() -> None:
    """`nohup` and a shell's background rely on this."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    interrupts.listen()
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGHUP)


def test_a_signal_that_another_thread_takes_waits_for_what_is_held() -> None:
    """A thread of torch or numpy may take it, because it has not blocked it."""
    interrupts.listen()
    take, seen = taken_by_another_thread(), list[str]()
    with pytest.raises(KeyboardInterrupt):
        _hold(take, seen)
    assert seen == ["went on"]
    _hold(int, seen)  # it has been told


@pytest.mark.parametrize("moment", [signal.SIG_BLOCK, signal.SIG_SETMASK])
def test_a_signal_that_another_thread_takes_leaves_none_blocked(moment: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes as soon as this thread has blocked its own, or right before this thread unblocks them."""
    interrupts.listen()
    take, change, seen = taken_by_another_thread(), signal.pthread_sigmask, list[str]()
    before = change(signal.SIG_BLOCK, ())

    def told(how: int, mask: Any) -> Any:
        blocked = change(how, mask) if how == signal.SIG_BLOCK else None
        if how == moment and mask != ():
            take()
        return change(how, mask) if blocked is None else blocked

    monkeypatch.setattr(signal, "pthread_sigmask", told)
    try:
        with pytest.raises(KeyboardInterrupt):
            _hold(int, seen)
        assert change(signal.SIG_BLOCK, ()) == before
    finally:
        change(signal.SIG_SETMASK, before)
    assert seen == ["went on"]


def taken_by_another_thread() -> Callable[[], None]:
    """Start a thread that has blocked no signal. What this returns lets it take one."""
    now = threading.Event()

    def raise_it() -> None:
        if now.wait(10):
            signal.raise_signal(signal.SIGTERM)

    other = threading.Thread(target=raise_it)
    other.start()

    def take() -> None:
        now.set()
        other.join(10)

    return take


def _hold(work: Callable[[], object], seen: list[str]) -> None:
    with held():
        work()
        seen.append("went on")


def test_what_is_started_while_signals_are_held_has_them_blocked() -> None:
    """Otherwise a terminal's Ctrl-C would end it with a traceback before it can ignore the signal."""
    command = [sys.executable, "-c", "import signal; print(*map(int, signal.pthread_sigmask(signal.SIG_BLOCK, [])))"]
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with held():
        held_process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with held_process:
        blocked = set(map(int, held_process.communicate()[0].split()))
    assert blocked >= set(ALL)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
    assert not before & set(ALL)


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_a_rank_of_torchrun_is_ended_by_its_signal_at_once(number: str) -> None:
    """It ends even if it waits in C++, which no Python handler interrupts."""
    text = (
        "from reference.system import interrupts as i; i.leave_to_torchrun(); i.leave_at_once(); i.listen(); i.over();"
    )
    asked = f"import signal; print(signal.getsignal(signal.{number}) is signal.SIG_DFL)"
    assert subprocess.check_output([sys.executable, "-c", text + asked]) == b"True\n"


@pytest.mark.parametrize(
    ("end", "told"),
    [
        ("pass", b""),
        ("raise SystemExit(0)", b""),
        ("raise KeyboardInterrupt", b"interrupted\n"),
        ("raise OSError('full')", b"error: full\n"),
    ],
)
def test_a_command_that_cleans_up_for_long_is_ended_by_a_later_signal(end: str, told: bytes, tmp_path: Path) -> None:
    """Whether it succeeded, left, was interrupted or failed."""
    late = "from reference.system import interrupts; interrupts.TOGETHER = 0.0"
    main = f"import atexit, signal; {late}; atexit.register(signal.raise_signal, 15); {end}"
    done = command(tmp_path, main, stderr=subprocess.PIPE, timeout=30)
    assert done.returncode == 130
    assert done.stderr == told + b"interrupted\n"


def test_a_signal_right_after_a_command_has_its_status_changes_nothing(tmp_path: Path) -> None:
    """Several signals in a row count as one."""
    done = command(tmp_path, "import atexit, signal; atexit.register(signal.raise_signal, 15)", timeout=30)
    assert done.returncode == 0


def command(place: Path, main: str, **how: Any) -> subprocess.CompletedProcess[bytes]:
    """Run a command of this ``main``."""
    (place / "work.py").write_text(f"import os, sys\ndef main(arguments): {main}")
    text = "import sys; from reference.cli.main import status_of; sys.exit(status_of('work'))"
    (place / "command.py").write_text(text)
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(place), str(Path(__file__).parents[2])])}
    return subprocess.run([sys.executable, "-m", "command"], env=variables, check=False, **how)


def test_a_command_that_is_interrupted_in_an_exec_has_its_own_status(tmp_path: Path) -> None:
    """The import of a dataclass does an `exec`."""
    done = command(tmp_path, "exec('raise KeyboardInterrupt')", stderr=subprocess.PIPE)
    assert done.returncode == 130
    assert done.stderr == b"interrupted\n"


@pytest.mark.parametrize(
    ("end", "status"), [("raise KeyboardInterrupt", 130), ("raise OSError('full')", 2), ("print(1, flush=True)", 2)]
)
def test_a_command_whose_output_nobody_reads_keeps_its_status(
    end: str, status: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As after ``2>&1 | head -1``. Python itself would end with 120, because it cannot write what is left."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as nobody:
        done = command(tmp_path, f"print('text'); {end}", stdout=nobody, stderr=nobody, timeout=60)
    assert done.returncode == status


def test_an_interrupted_command_whose_report_nobody_reads_is_interrupted(tmp_path: Path) -> None:
    """As that of ``verify | tee log``: Ctrl-C ends ``tee``, too."""
    main = "\n    import signal\n    try: signal.raise_signal(2)\n    finally: print('rows', flush=True)"
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as nobody:
        done = command(tmp_path, main, stdout=nobody, stderr=subprocess.PIPE, timeout=60)
    assert (done.returncode, done.stderr) == (130, b"error: [Errno 32] Broken pipe\ninterrupted\n")


def test_a_command_without_standard_streams_writes_to_no_file_of_its_own(tmp_path: Path) -> None:
    """``>&- 2>&-`` starts a command so. The processes that it starts can write, too."""
    main = "file = open('kept', 'w'); print(1); sys.stderr.write('2'); os.write(1, b'text'); os.write(2, b'text'); "
    main += "assert os.system('echo text') == os.system('echo text >&2') == 0"
    done = command(tmp_path, main, cwd=tmp_path, preexec_fn=partial(os.closerange, 0, 3))
    assert done.returncode == 0
    assert (tmp_path / "kept").read_text() == ""


@pytest.mark.parametrize("closed", [1, 2])
def test_a_command_without_one_standard_stream_may_use_it(closed: int, tmp_path: Path) -> None:
    main = "sys.stdout.write('text'); sys.stderr.write('text')"
    done = command(tmp_path, main, capture_output=True, preexec_fn=partial(os.close, closed))
    assert done.returncode == 0
    assert done.stdout + done.stderr == b"text"


# Commands that are interrupted before they have begun.

# At the first import of a command, wait for a signal; go on if standard input is closed.
WAITS = """
import os, sys
class Waits:
    def find_spec(self, name, *_):
        if name in ("torch_rpc_reference_startup", "reference.cli.main"):
            sys.meta_path.remove(self)
            os.write(1, b"waits\\n")
            os.read(0, 1)
sys.meta_path.insert(0, Waits())
"""


@contextmanager
def first_import(package: str, place: Path, **how: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Start ``python -m package list --help``, and yield its process while it waits in its first import."""
    (place / "sitecustomize.py").write_text(WAITS)
    command, root = [sys.executable, "-m", package, "list", "--help"], str(Path(__file__).parents[2])
    streams: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    variables = {**os.environ, "PYTHONPATH": str(place)}
    with subprocess.Popen(command, cwd=root, env=variables, **streams, **how) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"waits\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", ALL)
@pytest.mark.parametrize("package", ["reference", "faults"])
def test_a_command_is_interrupted_before_its_first_import(package: str, number: signal.Signals, tmp_path: Path) -> None:
    with first_import(package, tmp_path) as process:
        process.send_signal(number)
        assert process.communicate(timeout=60) == (b"", b"interrupted\n")
    assert process.returncode == 130


@pytest.mark.parametrize("package", ["reference", "faults"])
def test_a_command_that_can_tell_nobody_is_interrupted_before_its_first_import(package: str, tmp_path: Path) -> None:
    with first_import(package, tmp_path) as process:
        assert process.stderr is not None
        process.stderr.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 130


@pytest.mark.parametrize("package", ["reference", "faults"])
def test_a_command_that_is_to_ignore_a_signal_does_so_before_its_first_import(package: str, tmp_path: Path) -> None:
    with first_import(package, tmp_path, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) as process:
        process.send_signal(signal.SIGHUP)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert err == b""
    assert out.startswith(b"usage: ")


# Commands that are interrupted while they start or run.


@contextmanager
def started(command: str, place: Path, **how: Any) -> Iterator[subprocess.Popen[str]]:
    """Start a command, whose temporary files are in ``place``, and kill it at last."""
    variables = {**os.environ, "TMPDIR": str(place), "TORCHINDUCTOR_CACHE_DIR": str(place.with_name("cache"))}
    streams: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, "-m", *command.split()], env=variables, text=True, **streams, **how)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def importing(process: subprocess.Popen[str], place: Path) -> bool:
    """Return whether the process has begun to import torch."""
    return "libtorch" in Path(f"/proc/{process.pid}/maps").read_text()


def serving(process: subprocess.Popen[str], place: Path) -> bool:
    """Return whether the process has started its forkserver, which imports."""
    return any(place.glob("pymp-*/listener-*"))


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "number", "when", "send"),
    [
        ("reference run parameter_server", signal.SIGINT, importing, os.killpg),
        ("reference run parameter_server", signal.SIGTERM, serving, os.kill),
        ("faults run parameter_server --healthy", signal.SIGHUP, serving, os.killpg),
    ],
)
def test_a_start_that_is_interrupted_leaves_nothing(
    command: str,
    number: signal.Signals,
    when: Callable[[subprocess.Popen[str], Path], bool],
    send: Callable[[int, int], None],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """This holds even if the whole process group gets the signal, as from a terminal."""
    place = tmp_path_factory.mktemp("t")  # a socket's path is to be short
    with started(f"{command} --steps 1000000", place, start_new_session=True) as process:
        due = time.monotonic() + 60
        while not when(process, place):
            assert process.poll() is None
            assert time.monotonic() < due
        others = descendants_of(process.pid)
        send(process.pid, number)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err == "interrupted\n"
    assert list(place.iterdir()) == []
    assert left_after(others, 10) == set()


SHORT = "reference run parameter_server --steps 20"


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> float:
    """Return the seconds of a run that nobody ends."""
    begun = time.monotonic()
    with started(SHORT, tmp_path_factory.mktemp("t")) as process:
        process.communicate(timeout=60)
    return time.monotonic() - begun


@pytest.mark.long
@pytest.mark.parametrize("number", range(12))
def test_a_run_that_is_ended_at_any_moment_leaves_nothing(
    number: int, whole: float, faults_seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The tests' seed decides moment and signal. The plugin's account of every test looks for processes and memory."""
    chance = random.Random(f"{faults_seed} {number}")
    how, place = chance.choice((signal.SIGKILL, *ALL)), tmp_path_factory.mktemp("t")
    with started(SHORT, place) as process:
        with suppress(subprocess.TimeoutExpired):
            process.wait(chance.uniform(0.0, whole))
        process.send_signal(how)
        process.communicate(timeout=60)
    if how != signal.SIGKILL:  # after that only the next launcher cleans up
        assert list(place.iterdir()) == []
