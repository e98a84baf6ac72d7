"""Ledgers: a written line is there, and several ledgers become one timeline.

tests/properties/test_ledger_machine.py has processes that fork, close their ledgers, and are killed.
"""

from __future__ import annotations

import json
import os
import resource
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from faults.ledger import Event, Ledger, LedgerError, Timeline, read
from faults.ledger.ledger import SCHEMA


def put(folder: Path, role: str, *lines: dict[str, Any] | str | bytes) -> None:
    """A ledger as another machine may have left it."""
    written = [line if isinstance(line, str | bytes) else json.dumps(line) for line in lines]
    content = b"".join((line if isinstance(line, bytes) else line.encode()) + b"\n" for line in written)
    (folder / f"{role}.jsonl").write_bytes(content)


def start(boot: str, time: float, wall: float) -> dict[str, Any]:
    return {"event": "start", "schema": SCHEMA, "time": time, "wall": wall, "boot": boot, "pid": 1}


def test_a_written_event_is_read_back(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, "ps")
    ledger.write("fired", fault=2, kind="Delay", site="m:f", caller="trainer1", nth=3, seconds=0.25)
    ledger.write("odd", path=Path("a"), line="two\nlines \r \u2028 \ud800", nothing=None)
    ledger.close()
    timeline = read(tmp_path)
    assert [event.event for event in timeline.events] == ["start", "fired", "odd"]
    assert timeline.roles == ("ps",)
    assert timeline.torn == {}
    assert {event.process for event in timeline.events} == {os.getpid()}
    first, fired, odd = timeline.events
    assert first.time == 0.0 <= fired.time <= odd.time
    assert fired.details == {
        "fault": 2, "kind": "Delay", "site": "m:f", "caller": "trainer1", "nth": 3, "seconds": 0.25
    }  # fmt: skip
    assert odd.details == {"path": "a", "line": "two\nlines \r \u2028 \ud800", "nothing": None}
    assert len((tmp_path / "ps.jsonl").read_bytes().splitlines()) == 3
    assert str(Event("a", "up", 1.0, {"nth": 2, "links": [], "stack": ""})) == "    1.0000  a  up  nth=2"
    assert str(fired).endswith("  ps  fired  fault=2 kind=Delay site=m:f caller=trainer1 nth=3 seconds=0.25")
    assert len(str(timeline).splitlines()) >= 3


@pytest.mark.parametrize("later", [["up"], []])
def test_a_program_may_close_what_it_has_not_opened(later: list[str], tmp_path: Path) -> None:
    """A daemon does so, by `os.closerange`. A file that it opens then has the ledger's number, but gets none of its
    lines, and keeps its position."""
    ledger = Ledger(tmp_path, "a")
    (number,) = [int(each.name) for each in Path("/proc/self/fd").iterdir() if each.resolve() == ledger.path]
    with (tmp_path / "own").open("w+b") as own:
        own.write(b"own")
        own.seek(1)
        os.dup2(own.fileno(), number)
        try:
            for event in later:
                ledger.write(event)
            ledger.close()
            assert os.path.samestat(os.fstat(number), os.fstat(own.fileno()))
            assert own.tell() == os.lseek(number, 0, os.SEEK_CUR) == 1
        finally:
            os.close(number)
    assert (tmp_path / "own").read_bytes() == b"own"
    assert [each.event for each in read(tmp_path).events] == ["start", *later]


def test_calls_of_two_worlds_in_one_process_are_told_apart(tmp_path: Path) -> None:
    call = {"event": "invoke", "time": 1.0, "process": 7, "site": "m:f", "nth": 1}
    put(tmp_path, "a", *([start("x", 0.0, 5.0) | {"process": 7}, call] * 2))
    first, second = read(tmp_path).of("invoke")
    assert (first.made, second.made) == (("a", 7, 1, "m:f", 1), ("a", 7, 2, "m:f", 1))


def test_a_line_that_found_no_room_spoils_no_other(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, "ps")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (ledger.path.stat().st_size + 10, hard))  # a disk with so much room
    try:
        ledger.write("step", number=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    ledger.write("up")
    timeline = read(tmp_path)
    assert [event.event for event in timeline.events] == ["start", "up"]
    assert timeline.torn == {"ps": 1}


def test_a_line_torn_anywhere_is_counted_and_spoils_no_other(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, "ps")
    ledger.write("fired", fault=1)
    whole = ledger.path.read_bytes()
    ledger.write("effective", fault=1)
    ledger.close()
    content = ledger.path.read_bytes()
    for length in range(len(whole) + 1, len(content) - 1):
        ledger.path.write_bytes(content[:length])
        timeline = read(tmp_path)
        assert timeline.torn == {"ps": 1}
        assert [event.event for event in timeline.events] == ["start", "fired"]
    for length in (len(whole), len(content) - 1, len(content)):  # without its line end the last line is whole, too
        ledger.path.write_bytes(content[:length])
        assert read(tmp_path).torn == {}


@pytest.mark.parametrize(
    "line",
    [
        *("nonsense", "7", "[]", "{}", '{"event": "up"}', '{"time": 1}', '{"event": 7, "time": 1}'),
        *('{"event": "up", "time": "1"}', '{"event": "up", "time": NaN}', '{"event": "up", "time": 1e400}'),
        *('{"event": "start", "time": 1, "boot": "a"}', "[" * 100_000),
        *(b"\xff\xfe{}", b"\0\0\0\0", b'{"event": "\xff", "time": 1}'),
    ],
    ids=lambda line: str(line[:20]),
)
def test_a_line_that_no_ledger_wrote_counts_as_torn(tmp_path: Path, line: str | bytes) -> None:
    put(tmp_path, "ps", start("a", 5.0, 100.0), line, {"event": "up", "time": 6.0})
    timeline = read(tmp_path)
    assert [(event.event, event.time) for event in timeline.events] == [("start", 0.0), ("up", 1.0)]
    assert timeline.torn == {"ps": 1}


def test_threads_write_whole_lines(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, "ps")
    together = threading.Barrier(8)

    def write(thread: int) -> None:
        together.wait(timeout=30)
        for number in range(200):
            ledger.write("invoke", thread=thread, number=number, filler="x" * (number * 37 % 5000))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    ledger.close()
    timeline = read(tmp_path)
    assert timeline.torn == {}
    for each in range(8):
        numbers = [event.details["number"] for event in timeline.of("invoke") if event.details["thread"] == each]
        assert numbers == list(range(200))


def test_a_ledger_can_be_closed_while_threads_write(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, "ps")
    started = threading.Semaphore(0)

    def write() -> None:
        for number in range(3000):
            ledger.write("invoke", number=number)
            started.release()

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        assert started.acquire(timeout=30)
        ledger.close()
    assert writing.exception() is None
    assert read(tmp_path).torn == {}


def test_roles_of_one_machine_share_its_clock(tmp_path: Path) -> None:
    """The wall clock, which may be set while they run, does not matter."""
    put(tmp_path, "a", start("boot", 100.0, 5000.0), {"event": "x", "time": 103.0})
    put(tmp_path, "b", start("boot", 101.0, 9000.0), {"event": "y", "time": 102.0})
    found = [(event.role, event.event, event.time) for event in read(tmp_path).events]
    assert found == [("a", "start", 0.0), ("b", "start", 1.0), ("b", "y", 2.0), ("a", "x", 3.0)]
    assert read(tmp_path).zero == 100.0


@pytest.mark.parametrize("wall", [5000.0, 5000.5])
def test_of_two_starts_at_once_the_first_by_the_machines_clock_begins(wall: float, tmp_path: Path) -> None:
    """A process may be held up between its looks at the two clocks."""
    put(tmp_path, "a", start("here", 100.5, 5000.0))
    put(tmp_path, "b", start("here", 100.25, wall))
    assert [(event.role, event.time) for event in read(tmp_path).events] == [("b", 0.0), ("a", 0.25)]


def test_machines_are_aligned_by_the_wall_clock(tmp_path: Path) -> None:
    put(tmp_path, "a", start("here", 100.0, 5000.0), {"event": "x", "time": 103.0})
    put(tmp_path, "b", start("there", 7.0, 5001.0), {"event": "y", "time": 8.5})
    put(tmp_path, "c", start("there", 8.0, 5500.0), {"event": "z", "time": 8.25})
    found = [(event.role, event.event, event.time) for event in read(tmp_path).events]
    assert found[:3] == [("a", "start", 0.0), ("b", "start", 1.0), ("c", "start", 2.0)]
    assert found[3:] == [("c", "z", 2.25), ("b", "y", 2.5), ("a", "x", 3.0)]


def test_a_machine_without_a_boot_id_has_a_clock_of_its_own(tmp_path: Path) -> None:
    put(tmp_path, "a", start("", 100.0, 5000.0))
    put(tmp_path, "b", start("", 7.0, 5001.0), {"event": "y", "time": 7.5})
    assert [event.time for event in read(tmp_path).events] == [0.0, 1.0, 1.5]


def test_a_role_without_a_start_is_on_the_first_clock(tmp_path: Path) -> None:
    put(tmp_path, "a", start("here", 100.0, 5000.0))
    put(tmp_path, "b", '{"event": "sta', {"event": "up", "time": 102.0})
    timeline = read(tmp_path)
    assert [(event.role, event.time) for event in timeline.events] == [("a", 0.0), ("b", 2.0)]
    assert timeline.torn == {"b": 1}


def test_a_ledger_may_have_nothing_but_a_torn_start(tmp_path: Path) -> None:
    put(tmp_path, "a", "{", {"event": "up", "time": 102.0})
    put(tmp_path, "b")
    timeline = read(tmp_path)
    assert [(event.role, event.time) for event in timeline.events] == [("a", 102.0)]
    assert timeline.roles == ("a", "b")


def test_facts_are_what_the_same_plan_gives_again() -> None:
    def timeline(*events: tuple[str, float, dict[str, Any]]) -> Timeline:
        return Timeline(tuple(Event("ps", *each) for each in events), {}, ("ps",))

    first = timeline(
        ("fired", 1.0, {"fault": 0, "nth": 1, "seconds": 0.2}), ("up", 1.5, {}), ("fired", 2.0, {"fault": 1, "nth": 1})
    )
    again = timeline(("fired", 7.0, {"fault": 1, "nth": 1}), ("fired", 8.0, {"fault": 0, "nth": 1, "seconds": 0.3}))
    other = timeline(("fired", 1.0, {"fault": 0, "nth": 2}), ("fired", 2.0, {"fault": 1, "nth": 1}))
    assert first.facts() == again.facts()
    assert first.facts() != other.facts()
    assert len(first.facts()) == 2
    assert len(timeline(("fired", 1.0, {"at": None}), ("fired", 2.0, {"at": "up@ps"})).facts()) == 2


@pytest.mark.parametrize("folder", ["missing", "file", "ro"])
def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").write_text("")
    target = Path("/proc/self") if folder == "ro" else tmp_path / folder
    with pytest.raises(LedgerError) as caught:
        Ledger(target, "ps")
    line = str(caught.value)
    assert line.startswith(f"cannot write a ledger at {target}/ps.jsonl: ")
    assert line.endswith("; wanted a folder in which role 'ps' can write")
    assert line.isprintable()


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    assert read(tmp_path) == Timeline((), {}, ())
    with pytest.raises(LedgerError, match=r"^no folder '.*missing', wanted the folder of a run$"):
        read(tmp_path / "missing")
    (tmp_path / "ps.jsonl").mkdir()
    with pytest.raises(LedgerError, match=r"^cannot read the ledger .*ps.jsonl: Is a directory$"):
        read(tmp_path)


def test_two_processes_that_play_one_role_have_the_clocks_of_their_machines(tmp_path: Path) -> None:
    first, second = {**start("a", 5.0, 100.0), "process": 1}, {**start("b", 70.0, 101.0), "process": 2}
    events = [{"event": "x", "time": time, "process": process} for time, process in ((8.0, 1), (71.0, 2))]
    put(tmp_path, "ps", first, second, *events)
    assert [event.time for event in read(tmp_path).events] == [0.0, 1.0, 2.0, 3.0]
    put(tmp_path, "ps", first, {"event": "x", "time": 8.0, "process": "1"})
    assert read(tmp_path).torn == {"ps": 1}
