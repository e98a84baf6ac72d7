"""A process records its real exit status, and which process asked it to end."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

import numpy
import pytest
from torch.futures import Future

from faults import hook
from faults.inject.announcer import Announcer
from faults.inject.call.calls import Calls
from faults.inject.call.delivery import CalleeState
from faults.ledger import Ledger, read
from faults.plan import Plan
from faults.run.process_tree import is_running
from faults.script import exit_record, exit_statuses, own_signals, uncaught
from faults.script.autostart import VARIABLE
from faults.verdict.failures import COMMAND

ROOT = Path(__file__).parents[2]  # placed before an installed package
STARTUP = ROOT / "faults" / "startup"


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("pass", 0),
        ("raise SystemExit(3)", 3),
        ("assert False", 1),
        ("sys.excepthook = print; assert False", 1),
        ("import threading; threading.Thread(target=sys.exit, args=(1,)).start()", 0),
        ("pid = os.fork(); sys.exit(2) if pid == 0 else os.waitpid(pid, 0)", 0),
        ("os._exit(4)", None),
        ("os.kill(os.getpid(), 9)", None),
        ("import atexit; atexit.register(os.abort)", None),
    ],
)
def test_c_writes_the_status_of_its_own_process(
    text: str, status: int | None, tmp_path: Path, forking: subprocess.Popen[str]
) -> None:
    assert forking.stdin is not None
    assert forking.stdout is not None
    print(json.dumps([str(tmp_path), text]), file=forking.stdin, flush=True)
    pid = int(forking.stdout.readline())
    assert exit_statuses.statuses(tmp_path) == ({} if status is None else {pid: status})
    assert exit_statuses.silent(tmp_path) == ({pid} if status is None else set())


# One import of torch for all of them. Each child ends as Python ends: it comes to the end of the script, or fails.
FORKING = """
import json, os, sys
from pathlib import Path
from faults.script import exit_record

for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        os.dup2(2, 1)  # what it prints is not its parent's answer
        break
    os.waitpid(pid, 0)
    print(pid, flush=True)
else:
    sys.exit()
folder, text = json.loads(line)
exit_record._write_status(Path(folder))
os.register_at_fork(after_in_child=exit_record._forget)
exec(text)
"""


@pytest.fixture(scope="module")
def forking() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", FORKING]
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nothing, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _leave(status: object) -> NoReturn:
    raise SystemExit(status)


class TestAStatusIsToldWithTheErrorThatWasBeingHandled:
    """`raise SystemExit` shows the status to a program's own handler."""

    @pytest.fixture(autouse=True)
    def _afresh(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(exit_record, "_last", {})
        monkeypatch.setattr(exit_record, "_inherited", [])

    @pytest.mark.parametrize("leave", [exit_record._exit, exit_record._exit_now])
    def test_a_status_within_a_handler_is_told_with_the_error(self, leave: Callable[..., NoReturn]) -> None:
        try:
            int("no data")
        except ValueError:
            with pytest.raises(SystemExit):
                leave(_leave, 3)
        assert exit_record._last["status"] == 3
        assert exit_record._last["causes"][0]["bases"][0] == "ValueError"

    def test_a_status_within_a_nested_handler_is_told_with_both_errors(self) -> None:
        try:
            try:
                int("no data")
            except ValueError:
                _leave(3)
        except SystemExit:
            with pytest.raises(SystemExit):
                exit_record._exit_now(_leave, 3)
        assert exit_record._last["causes"][0]["bases"][0] == "ValueError"

    @pytest.mark.parametrize("leave", [exit_record._exit, exit_record._exit_now])
    def test_status_0_is_told_with_whether_the_error_is_handled(self, leave: Callable[..., NoReturn]) -> None:
        """An interrupt, by which a user stops a server, is no mistake of the program."""

        def end(error: type[BaseException]) -> None:
            try:
                raise error
            finally:
                leave(_leave, 0)

        for error, handled in ((ValueError, False), (KeyboardInterrupt, True)):
            exit_record._last.clear()
            with pytest.raises(SystemExit):
                end(error)
            assert (exit_record._last["status"], exit_record._last["handled"]) == (0, handled)

    @pytest.mark.parametrize("leave", [exit_record._exit, exit_record._exit_now])
    def test_an_error_is_not_told_after_its_handler_nor_in_a_forked_child(self, leave: Callable[..., NoReturn]) -> None:
        with suppress(ValueError):
            int("no data")
        with pytest.raises(SystemExit):
            leave(_leave, 3)
        try:
            int("no data")
        except ValueError:
            exit_record._forget()  # as in a child that was forked here
            with pytest.raises(SystemExit):
                leave(_leave, 3)
        assert "causes" not in exit_record._last

    def test_a_status_of_a_thread_is_not_told(self) -> None:
        """`sys.exit` in a thread ends only that thread."""

        def end() -> None:
            try:
                int("no data")
            except ValueError:
                with suppress(SystemExit):
                    exit_record._exit(_leave, 3)

        thread = threading.Thread(target=end)
        thread.start()
        thread.join()
        assert exit_record._last == {}

    def test_a_status_that_the_program_catches_is_not_told(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def work() -> None:
            with suppress(SystemExit):
                try:
                    int("no data")
                finally:
                    exit_record._exit(_leave, 0)

        monkeypatch.setattr(CalleeState, "open", CalleeState(Ledger(tmp_path, "till")))
        monkeypatch.setattr(exit_record, "_before", [])
        monkeypatch.setattr(exit_record, "_leaving", [])
        work()
        exit_record._note()
        (left,) = read(tmp_path).of("exit")
        assert "causes" not in left.details

    @pytest.mark.parametrize(("code", "handled"), [("the sum is wrong", False), (0, None)])
    def test_a_status_that_a_finally_block_replaces_is_told(self, code: object, handled: bool | None) -> None:
        """``sys.exit("...")`` is followed by ``os._exit(0)`` in a `finally` block."""

        def end() -> None:
            try:
                _leave(code)
            finally:
                exit_record._exit_now(_leave, 0)

        with pytest.raises(SystemExit):
            end()
        assert exit_record._last.get("handled") is handled


def test_os_exit_ends_the_process_even_if_recording_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise OSError("no room")

    monkeypatch.setattr(exit_record, "_before", [fails])
    with pytest.raises(SystemExit) as end:
        exit_record._exit_now(_leave, 3)
    assert end.value.code == 3


def test_os_exit_is_seen_even_if_a_program_stored_it_before_it_imports_torch(tmp_path: Path) -> None:
    """``atexit.register(os._exit, 0)`` does so, and runs after handlers that were registered later."""
    text = (
        "import os; kept = os._exit; from faults.script.exit_hooks import doors; "
        "doors['_exit'] = lambda status: print('ends', status, flush=True); kept(3); kept(status=0)"
    )
    environment = {**os.environ, VARIABLE: str(tmp_path), "PYTHONPATH": f"{STARTUP}:{ROOT}"}
    said = subprocess.check_output([sys.executable, "-c", text], env=environment, text=True)
    assert said == "ends 3\nends 0\n"


def test_a_role_ends_when_its_process_becomes_another_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not end at each folder of PATH that lacks the program."""
    monkeypatch.setattr(CalleeState, "open", CalleeState(Ledger(tmp_path, "till")))
    monkeypatch.setattr(exit_record, "_before", [])
    found: list[tuple[object, ...]] = []
    for path in (tmp_path / "nothing", tmp_path, sys.executable):
        exit_record._become(lambda *arguments: found.append(arguments), path, ["python"])  # type: ignore[arg-type, func-returns-value]
    assert [arguments[0] for arguments in found] == [tmp_path / "nothing", tmp_path, sys.executable]
    assert [(each.details["status"], each.details["final"]) for each in read(tmp_path).of("exit")] == [(0, True)]


def test_a_role_that_cannot_become_another_program_has_not_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`os.execve` may be called with keyword arguments."""

    def execute(path: object, argv: list[str], env: dict[str, str]) -> NoReturn:
        raise OSError(f"no program: {path} {argv} {env}")

    monkeypatch.setattr(CalleeState, "open", CalleeState(Ledger(tmp_path, "till")))
    monkeypatch.setattr(exit_record, "_before", [])
    for path in (tmp_path / "nothing", sys.executable):
        with pytest.raises(OSError, match="no program"):
            exit_record._become(execute, path=path, argv=["python"], env={})
    assert [each.event for each in read(tmp_path).events] == ["start", "exit", "stayed"]


def test_a_process_whose_name_is_no_text_can_be_ended(tmp_path: Path) -> None:
    """The kernel cuts names off at 15 bytes, perhaps within a character."""
    name = os.fsencode(tmp_path) + b"/\xff"
    Path(os.fsdecode(name)).symlink_to("/bin/sleep")
    child = subprocess.Popen([name, "100"])
    try:
        due = time.monotonic() + 20
        while b"\xff" not in Path(f"/proc/{child.pid}/stat").read_bytes():  # after the process has started
            assert time.monotonic() < due
        assert is_running(child.pid)
        assert own_signals._ends(child.pid, signal.SIGUSR1)
    finally:
        child.kill()
        child.wait()


def test_a_process_that_has_ended_already_was_not_ended_by_a_later_signal(tmp_path: Path) -> None:
    """multiprocessing does so when it terminates a process that it has not waited for."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.close()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not is_running(process.pid)
        own_signals._kill(tmp_path, os.kill, process.pid, signal.SIGTERM)
        assert own_signals.asked_to_end(tmp_path) == {}
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        begun = time.monotonic()
        own_signals._kill(tmp_path, os.kill, process.pid, signal.SIGKILL)
        assert list(own_signals.asked_to_end(tmp_path)) == [process.pid]
        assert begun - 1 < own_signals.asked_to_end(tmp_path)[process.pid] < time.monotonic() + 1


@pytest.mark.parametrize(
    ("how", "asked"),
    [
        ("child.kill()", True),
        ("os.kill(child.pid, 9)", True),
        ("os.killpg(child.pid, 9)", True),
        ("os.kill(-child.pid, 15)", True),
        ("child.send_signal(10)", True),  # SIGUSR1
        ("child.send_signal(18); os.system(f'kill -9 {child.pid}')", False),  # SIGCONT, and one sent by a shell
    ],
)
def test_a_launcher_that_never_imports_torch_records_the_processes_it_ends(
    how: str, asked: bool, tmp_path: Path
) -> None:
    text = (
        "import os, subprocess, sys; child = subprocess.Popen(['sleep', '100'], start_new_session=True); "
        f"{how}; child.wait(); assert 'torch' not in sys.modules; print(child.pid)"
    )
    found = subprocess.run(
        [sys.executable, "-c", text],
        env={**os.environ, VARIABLE: str(tmp_path), "PYTHONPATH": f"{STARTUP}:{ROOT}"},
        stdout=subprocess.PIPE,
        check=True,
    )
    assert list(own_signals.asked_to_end(tmp_path)) == ([int(found.stdout)] if asked else [])


@pytest.mark.parametrize(
    ("told", "asked"),
    [
        ("", True),
        ("signal.signal(signal.SIGUSR1, signal.SIG_DFL)", True),
        ("signal.signal(signal.SIGUSR1, print)", False),
        ("signal.signal(signal.SIGUSR1, signal.SIG_IGN)", False),
        ("signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})", False),
    ],
)
def test_a_signal_that_its_receiver_handles_is_not_what_ends_it(told: str, asked: bool, tmp_path: Path) -> None:
    """A server may read its settings again at a signal, and crash later. `nohup` would ignore SIGHUP here."""
    text = f"import signal, sys\n{told}\nprint(flush=True)\nsys.stdin.read()"
    with subprocess.Popen([sys.executable, "-S", "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        own_signals._kill(tmp_path, lambda pid, number: None, process.pid, signal.SIGUSR1)
    assert list(own_signals.asked_to_end(tmp_path)) == ([process.pid] if asked else [])


def test_kill_with_minus_one_reaches_all_and_with_0_the_own_group() -> None:
    assert {os.getpid(), os.getppid()} <= set(own_signals._receivers(-1))
    assert own_signals._receivers(7) == [7]
    assert os.getpid() in own_signals._receivers(0)
    assert own_signals._receivers(0) == own_signals._receivers(-os.getpgrp())


def test_calls_that_have_ended_are_written_down_once_though_no_callback_has_run(tmp_path: Path) -> None:
    """A thread that waits for a call may end the process before torch runs the call's callbacks."""
    calls = Calls(Plan(), "till", Ledger(tmp_path, "till"), Announcer("till"))
    ended: Future[int] = Future()
    ended.set_result(1)
    for number, future in enumerate((ended, Future()), start=1):
        calls._pending[number] = ({"site": "shop:pay", "nth": number, "to": "shop", "via": "rpc"}, 0.0, future)
    for write in (calls.settle, calls.settle, lambda: calls._ended(1, ended)):
        write()
        assert [(each.event, each.details["nth"]) for each in read(tmp_path).of("ok", "fail", "info")] == [("ok", 1)]


@pytest.mark.parametrize("status", [1, True, numpy.int64(1)], ids=repr)
def test_a_status_that_is_no_plain_number_is_written_as_one(
    status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An example is `sys.exit(not done)`. Otherwise the line would count as torn."""
    monkeypatch.setattr(exit_record, "_last", {})
    monkeypatch.setattr(CalleeState, "open", CalleeState(Ledger(tmp_path, "till")))
    exit_record._note(status)
    told = read(tmp_path)
    assert [repr(event.details["status"]) for event in told.of("exit")] == ["1"]
    assert told.torn == {}


@pytest.mark.parametrize("timeout", [5, numpy.float32(5), None, "soon"], ids=repr)
def test_a_shutdown_is_told_whatever_its_timeout_is(timeout: Any, tmp_path: Path) -> None:
    """torch itself refuses impossible values."""
    hook._leave(Announcer("till"), Ledger(tmp_path, "till"), timeout=timeout)
    told = read(tmp_path)
    assert [event.details["timeout"] for event in told.of("shutdown")] == [5.0 if timeout in (5,) else 0.0]
    assert told.torn == {}


class Rank(multiprocessing.Process):
    """Signal handlers as people write them."""

    def run(self) -> None:
        raise ValueError("no data")


def test_a_process_whose_class_has_a_run_of_its_own_tells_what_ended_it(tmp_path: Path) -> None:
    """multiprocessing swallows the error, but it has been recorded before."""

    def bootstrap(rank: Rank) -> int:
        with pytest.raises(ValueError, match="no data"):
            rank.run()
        return 1

    assert uncaught._watched(tmp_path, bootstrap)(Rank()) == 1
    (told,) = read(tmp_path).of("raised")
    assert (told.role, told.details["error"]) == (COMMAND, "ValueError: no data")


def _raised(*, caught: bool) -> ValueError:
    """C keeps an error that has left all frames of its thread; a program may keep one that it caught."""
    frame = sys._getframe()
    while frame.f_back is not None and not caught:
        frame = frame.f_back
    return ValueError("no data").with_traceback(TracebackType(None, frame, 0, 1))


@pytest.mark.parametrize(("caught", "inherited", "told"), [(False, False, 1), (True, False, 0), (False, True, 0)])
def test_an_uncaught_error_is_told_whatever_hook_the_program_has(
    caught: bool, inherited: bool, told: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is recorded once, when the process ends, and not by a child that is forked meanwhile."""
    error = _raised(caught=caught)
    monkeypatch.setattr(sys, "last_value", error, raising=False)
    monkeypatch.setattr(sys, "last_exc", error, raising=False)
    monkeypatch.setattr(uncaught, "_told", set())
    monkeypatch.setattr(exit_record, "_inherited", [error] if inherited else [])
    uncaught._tell_last(tmp_path)
    uncaught._tell_last(tmp_path)
    assert [each.details["error"] for each in read(tmp_path).of("raised")] == ["ValueError: no data"] * told


def test_an_error_that_cannot_say_what_it_is_is_told(tmp_path: Path) -> None:
    class Mute(ValueError):
        def __str__(self) -> str:
            raise KeyError("no words")

    uncaught._write(tmp_path, Mute())
    (told,) = read(tmp_path).of("raised")
    assert told.details["error"] == "Mute: "


def test_nothing_is_told_again_while_nobody_has_another_hook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program may keep an error there, too, that it has handled."""
    monkeypatch.setattr(sys, "last_value", _raised(caught=False), raising=False)
    monkeypatch.setattr(sys, "last_exc", sys.last_value, raising=False)
    monkeypatch.setattr(uncaught, "_told", set())
    monkeypatch.setattr(uncaught, "_hook", [sys.excepthook])
    uncaught._tell_last(tmp_path)
    assert read(tmp_path).events == ()


def test_an_interrupt_is_told_unless_somebody_has_sent_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds for a role. The launcher sees the command's end itself."""
    uncaught._write(tmp_path, KeyboardInterrupt())
    assert read(tmp_path).events == ()
    monkeypatch.setattr(CalleeState, "open", CalleeState(Ledger(tmp_path, "till")))
    uncaught._write(tmp_path, KeyboardInterrupt())
    (tmp_path / f"till.{os.getpid()}.int").write_text("")
    uncaught._write(tmp_path, KeyboardInterrupt())
    (tmp_path / f"till.{os.getpid()}.int").write_text("Current thread:")
    uncaught._write(tmp_path, KeyboardInterrupt())
    assert [each.event for each in read(tmp_path).events] == ["start", "raised", "raised", "interrupted"]
