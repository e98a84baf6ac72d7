"""A run's folder: written, read elsewhere, and refused where it is not one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from faults.ledger import Ledger, record
from faults.ledger.record import End, RecordError
from faults.plan import Plan
from faults.run.runs import prepared
from tests.support.disk import files_of

PLAN = Plan.parse("Drop site=shop:pay role=a side=reply")
ENDS = {"a": End("Raised", "raised x.Odd: no", 12.5, ("x.Odd", "RuntimeError")), "b": End("Returned", "returned", 13.0)}
VALUES: dict[str, Any] = {
    "name": "shop",
    "bound": 2.0,
    "seconds": 1.0,
    "trace": "wrong",
    "difference": "1 ULP",
    "ends": ENDS,
    "leaks": ["x"],
    "start": 11.0,
}


def stored(place: Path) -> Path:
    prepared(PLAN, place)
    Ledger(place, "a").close()
    record.write(place, **VALUES)
    return place


def test_a_written_run_is_read_back(tmp_path: Path) -> None:
    found = record.read(stored(tmp_path / "here").rename(tmp_path / "there"))
    assert {name: getattr(found, name) for name in VALUES} == VALUES
    assert found.plan == PLAN
    assert found.complete is True
    assert [event.event for event in found.timeline.events] == ["start"]
    assert [end.returned for end in found.ends.values()] == [False, True]


def test_losses_may_be_as_large_as_numbers_are(tmp_path: Path) -> None:
    prepared(PLAN, tmp_path)
    record.write(tmp_path, name="shop", ends={}, seconds=2.0, losses={"run": [1e300]})
    assert record.read(tmp_path).losses == {"run": [1e300]}


def test_a_reader_during_a_rewrite_reads_the_old_record(tmp_path: Path) -> None:
    with (stored(tmp_path) / record.RUN).open() as reader:
        record.write(tmp_path, name="shop", ends={}, seconds=2.0)
        assert json.loads(reader.read())["seconds"] == 1.0
    assert record.read(tmp_path).seconds == 2.0


def test_a_full_disk_is_told_with_the_files_name(tmp_path: Path) -> None:
    prepared(PLAN, tmp_path)
    with files_of(16), pytest.raises(OSError, match=f"^{tmp_path}/run.json: File too large$"):
        record.write(tmp_path, name="shop", ends={})


@pytest.mark.parametrize(
    ("name", "content", "gap"),
    [
        ("plan.json", f"{PLAN.to_json()}\n", None),
        ("plan.json", Plan().to_json(), "plan.json is not the plan of this run"),
        ("a.jsonl", None, "a.jsonl is missing"),
        ("a.jsonl", "", "a.jsonl is not as the run left it"),
        ("a.jsonl", '{"event": "start", "ti', "a.jsonl is not as the run left it"),
        ("b.jsonl", "", "b.jsonl is of another run"),
        ("run.json", None, "no run.json: the folder comes from `prepare`, or the launcher died"),
    ],
)
def test_a_file_that_is_not_as_it_was_is_named(name: str, content: str | None, gap: str | None, tmp_path: Path) -> None:
    assert not record.read(stored(tmp_path)).gaps
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_text(content)
    assert list(record.read(tmp_path).gaps) == ([gap] if gap else [])


@pytest.mark.parametrize("field", ["trace", "running", "gone", "bound", "recorded", "ends a process"])
def test_a_record_without_one_of_its_facts_is_refused(field: str, tmp_path: Path) -> None:
    path = stored(tmp_path) / record.RUN
    part = left = json.loads(path.read_text())
    *places, name = field.split()
    for each in places:
        part = part[each]
    del part[name]
    path.write_text(json.dumps(left))
    with pytest.raises(RecordError, match=rf"missing field '{name}'$"):
        record.read(tmp_path)


def test_a_record_is_of_the_ledgers_of_its_time(tmp_path: Path) -> None:
    with Path(stored(tmp_path) / "a.jsonl").open("a") as file:
        file.write('{"event": "exit", "time": 1.0}\n')
    assert record.read(tmp_path).gaps == ("a.jsonl is not as the run left it",)
    record.write(tmp_path, name="shop", ends={})
    assert record.read(tmp_path).gaps == ()


@pytest.mark.parametrize("name", ["run.json", "a.jsonl"])
@pytest.mark.parametrize("schema", ["1", "3", '"2"'])
def test_a_run_of_another_schema_is_refused(name: str, schema: str, tmp_path: Path) -> None:
    path = stored(tmp_path) / name
    path.write_text(path.read_text().replace('"schema": 2', f'"schema": {schema}'))
    with pytest.raises(RecordError, match=r"^.*is of schema '?\d'?: wanted 2$"):
        record.read(tmp_path)


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(RecordError, match="is not a run's folder: "):
            record.read(place)
