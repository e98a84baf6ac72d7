"""What a process leaves about its end: its real status, and who asked it to end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from torch.futures import Future

from faults import farewell
from faults.announcer import Announcer
from faults.calls import Calls
from faults.ledger import Ledger, read
from faults.plan import Plan
from faults.relatives import is_running


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
    ],
)
def test_c_writes_the_status_of_its_own_process(text: str, status: int | None, tmp_path: Path) -> None:
    head = (
        "import os, sys; from pathlib import Path; from faults import farewell; "
        f"farewell._write_status(Path({str(tmp_path)!r})); os.register_at_fork(after_in_child=farewell._forget); "
    )
    process = subprocess.Popen([sys.executable, "-c", head + text], stderr=subprocess.DEVNULL)
    process.wait()
    assert farewell.statuses(tmp_path) == ({} if status is None else {process.pid: status})


def test_a_process_that_has_ended_already_was_not_ended_by_a_later_signal(tmp_path: Path) -> None:
    """As when multiprocessing terminates what it has not waited for."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.close()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not is_running(process.pid)
        farewell._kill(tmp_path, os.kill, process.pid, signal.SIGTERM)
        assert farewell.asked_to_end(tmp_path) == set()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        farewell._kill(tmp_path, os.kill, process.pid, signal.SIGKILL)
        assert farewell.asked_to_end(tmp_path) == {process.pid}


def test_calls_that_have_ended_are_written_down_once_though_no_callback_has_run(tmp_path: Path) -> None:
    """Whoever waits for a call may end the process before torch runs the call's callbacks."""
    calls = Calls(Plan(), "till", Ledger(tmp_path, "till"), Announcer("till"))
    ended: Future[int] = Future()
    ended.set_result(1)
    for number, future in enumerate((ended, Future()), start=1):
        calls._pending[number] = ({"site": "shop:pay", "nth": number, "to": "shop", "via": "rpc"}, 0.0, future)
    for write in (calls.settle, calls.settle, lambda: calls._ended(1, ended)):
        write()
        assert [(each.event, each.details["nth"]) for each in read(tmp_path).of("ok", "fail", "info")] == [("ok", 1)]
