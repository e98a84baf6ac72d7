"""Write a run as a trace for Perfetto (https://ui.perfetto.dev): a process for each role, with tracks for its calls,
what it executes, its steps, and what happened to it. Needs the package ``perfetto``.

Where a callee's execution is recorded, as of calls that a fault has hit, a flow leads from the caller to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent
from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder

from faults.judge.drawing import drawing
from faults.judge.facts import Facts

_SEQUENCE = 1  # all packets are of one writer
BEGIN, END, INSTANT = TrackEvent.TYPE_SLICE_BEGIN, TrackEvent.TYPE_SLICE_END, TrackEvent.TYPE_INSTANT
# A slice of a track: when it begins and ends (seconds), its name, its flow's number or None, and what it tells.
Slice = tuple[float, float, str, int | None, dict[str, str]]


def write_trace(facts: Facts, path: Path) -> None:
    """Write the whole run, however long it is."""
    drawn = drawing(facts, most=None)
    with path.open("wb") as file:
        writer = _Writer(file, drawn["begin"])
        for lane, role in enumerate(drawn["lanes"]):
            writer.process(lane, role)
            for name, slices in _tracks(drawn, lane).items():
                for row in _rows(slices):
                    writer.track(lane, name, row)


def _tracks(drawn: dict[str, Any], lane: int) -> dict[str, list[Slice]]:
    """The slices of a role, by the names of its tracks."""
    marks = [mark[1:] for mark in drawn["marks"] if mark[0] == lane]
    spans: list[Slice] = [(*span[1:], None, {}) for span in drawn["spans"] if span[0] == lane]
    return {
        "lives": [(*life[1:3], f"life, {life[4]}", None, {}) for life in drawn["lives"] if life[0] == lane],
        "calls": list(_calls(drawn, lane)),
        "executing": list(_executing(drawn, lane)),
        "steps": [(time, time, text, None, {}) for time, sign, text in marks if sign == "•"],
        "faults and errors": [(time, time, text, None, {}) for time, sign, text in marks if sign != "•"] + spans,
    }


def _calls(drawn: dict[str, Any], lane: int) -> Iterator[Slice]:
    for number, (caller, callee, begin, end, how, text, executing, _) in enumerate(drawn["calls"], 1):
        if caller == lane:
            told = {"to": drawn["lanes"][callee], "how": how}
            last = drawn["end"] if end is None else end
            yield begin, last, text, None if executing is None else number, told


def _executing(drawn: dict[str, Any], lane: int) -> Iterator[Slice]:
    for number, (caller, callee, _, end, how, text, executing, executed) in enumerate(drawn["calls"], 1):
        if callee == lane and executing is not None:
            last = executed or end or drawn["end"]
            yield executing, max(executing, last), text, number, {"from": drawn["lanes"][caller], "how": how}


def _rows(slices: list[Slice]) -> Iterator[list[Slice]]:
    """Divide slices, such as calls that are open at once, into rows in which none overlap."""
    rows: list[list[Slice]] = []
    for each in sorted(slices, key=lambda item: item[:2]):
        row = next((row for row in rows if row[-1][1] <= each[0]), None)
        if row is None:
            rows.append([each])
        else:
            row.append(each)
    yield from rows


class _Writer:
    """Writes packets. ``zero``: the second that becomes 0 ns."""

    def __init__(self, file: Any, zero: float) -> None:
        self._builder = StreamingTraceProtoBuilder(file)
        self._zero = zero
        self._uuids = count(1)
        self._processes: dict[int, int] = {}

    def process(self, lane: int, role: str) -> None:
        packet, self._processes[lane] = self._builder.create_packet(), next(self._uuids)
        packet.track_descriptor.uuid = self._processes[lane]
        packet.track_descriptor.process.pid = lane + 1
        packet.track_descriptor.process.process_name = role
        self._builder.write_packet(packet)

    def track(self, lane: int, name: str, slices: list[Slice]) -> None:
        """Write one row. Rows of one name and process are shown as one track."""
        packet, uuid = self._builder.create_packet(), next(self._uuids)
        packet.track_descriptor.uuid = uuid
        packet.track_descriptor.parent_uuid = self._processes[lane]
        packet.track_descriptor.name = name
        self._builder.write_packet(packet)
        for begin, end, text, flow, told in slices:
            self._event(uuid, begin, INSTANT if begin == end else BEGIN, text, flow, told)
            if begin != end:
                self._event(uuid, end, END, "", None, {})

    def _event(self, uuid: int, time: float, kind: Any, text: str, flow: int | None, told: dict[str, str]) -> None:
        packet = self._builder.create_packet()
        packet.timestamp = round((time - self._zero) * 1e9)
        packet.trusted_packet_sequence_id = _SEQUENCE
        event = packet.track_event
        event.type, event.track_uuid = kind, uuid
        if text:
            event.name = text
        if flow is not None:
            event.flow_ids.append(flow)
        for name, value in told.items():
            note = event.debug_annotations.add()
            note.name, note.string_value = name, value
        self._builder.write_packet(packet)
