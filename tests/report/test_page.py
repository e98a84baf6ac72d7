"""The page of a run: whole, bounded, and safe whatever a program has written."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from faults.cli.options import HEALTHY
from faults.cli.tutorial_target import tutorial_of
from faults.judge.drawing import MOST, shortened
from faults.judge.facts import Facts
from faults.judge.rules import judge
from faults.ledger import Timeline, record
from faults.ledger.record import COMMAND, End, Run
from faults.plan import Plan
from faults.report.page import page
from tests.golden import store
from tests.golden.rows import rows
from tests.judge.by_hand import CRASH, DELAY, PAY, calls, crashed, event, fired, raised, script, started

VOID = {"meta", "br", "input"}


class Read(HTMLParser):
    """Reads a page: its texts, its scripts, and the elements that are open."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.texts: list[str] = []
        self.tags: set[str] = set()
        self.scripts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() != tag:  # a row ends its cells
            pass

    def handle_data(self, data: str) -> None:
        (self.scripts if self.open[-1:] == ["script"] else self.texts).append(data)


def drawn(read: Read) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(read.scripts[0])
    return found


def test_every_stored_run_has_a_page(tmp_path: Path) -> None:
    for source in sorted({row.partition("/")[0] for row in rows()}):
        for name, files in store.unpacked(source).items():
            folder = tmp_path / source / name
            store.write(files, folder)
            facts = Facts(record.read(folder))
            judgement = judge(facts.run)
            text = page(facts, judgement, folder)
            read = Read(text)
            assert not read.open, name
            assert f"{judgement.verdict}." in "".join(read.texts), name
            assert all(text.count(f"<tr><td>{each.name}<td") == 1 for each in judgement.checks), name
            assert {life.role for life in facts.lives} <= {str(each) for each in drawn(read)["lanes"]}, name
            assert len(text.encode()) < 100_000, name


HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>'\"&\x1b[31m\u202e\u2028"


def test_what_a_program_writes_is_text(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(HOSTILE)
    run = script(
        CRASH,
        crashed(),
        raised("a", "Lost", text=HOSTILE),
        event("a", "invoke", 1.0, site=f"shop:{HOSTILE}", nth=1, to=HOSTILE),
        status=1,
        leaks=[HOSTILE],
        gaps=[HOSTILE],
        name=HOSTILE,
    )
    text = page(Facts(run), judge(run), tmp_path)
    read = Read(text)
    assert len(read.scripts) == 2
    assert "img" not in read.tags
    assert text.count("<script") == 2
    assert not any(each in text for each in "\x1b\u202e\u2028")
    assert "alert(1)" in "".join(read.texts)


@pytest.mark.parametrize("count", [4999, 20_000])
def test_a_page_has_a_limit_and_says_what_it_leaves_out(tmp_path: Path, count: int) -> None:
    run = script(
        "seed=0", *calls(count, f"shop:Till.{'pay' * 12}"), event("a", "invoke", 8.9, site="shop:lost", nth=1, to="b")
    )
    text = page(Facts(run), judge(run), tmp_path)
    found = drawn(Read(text))
    assert len(found["calls"]) == min(MOST, count + 1)
    assert any("lost#1" in str(each) for each in found["calls"])  # it has no end
    assert ("calls are not drawn: the page keeps" in text) == (count >= MOST)
    assert len(text.encode()) < 1_000_000


def test_of_many_marks_steps_are_left_out(tmp_path: Path) -> None:
    steps = [event("a", "step", number / 10_000, number=number) for number in range(30_000)]
    run = script("seed=0", *steps, event("a", "logged", 8.0, text="late"))
    text = page(Facts(run), judge(run), tmp_path)
    marks = drawn(Read(text))["marks"]
    assert len(marks) == MOST
    assert [mark[3] for mark in marks if mark[2] == "!"] == ["logged: late"]
    assert " 25003 steps are not marked." in text
    assert len(text.encode()) < 1_000_000


def test_losses_are_drawn_beside_the_twins(tmp_path: Path) -> None:
    run = script("seed=0", losses={"run": [2.5, 2.0, 1.0], "twin": [2.5, 1.5, 0.5]})
    text = page(Facts(run), judge(run), tmp_path)
    assert "They differ from step 1 on." in text
    assert '<polyline class="run" points="0.0,0.0 300.0,35.0 600.0,105.0"/>' in text
    for other in ([2.5, 2.0], [2.5, 2.0, -1.7e308]):
        run = script("seed=0", losses={"run": [2.5, 2.0, 1.7e308], "twin": other})
        text = page(Facts(run), judge(run), tmp_path)
        assert "They differ from step 2 on." in text
        assert "nan" not in text.partition("<polyline")[2].partition("</svg")[0]
    equal = script("seed=0", losses={"run": [1.0], "twin": [1.0]})
    assert "They are equal." in page(Facts(equal), judge(equal), tmp_path)
    assert "<polyline" not in page(Facts(script()), judge(script()), tmp_path)


def test_of_very_many_roles_those_that_failed_are_shown(tmp_path: Path) -> None:
    """An error that ended only a thread is told beside them."""
    roles = [f"r{number:02d}" for number in range(60)]
    lives = [each for number, role in enumerate(roles, 100) for each in started(role, process=number)]
    thread = event("a", "thread", 3.0, name="helper", error="ValueError: no")
    run = script("seed=0", *lives, raised("r59", "Lost", process=159), thread)
    text = page(Facts(run), judge(run), tmp_path)
    assert "r59" in "".join(Read(text).texts)
    assert "Lost: no" in text
    assert "an error ended only the thread helper of a" in text


def test_of_many_times_of_a_fault_the_last_is_told(tmp_path: Path) -> None:
    run = script(DELAY, *(fired(time=float(second)) for second in range(1, 10)))
    assert "9.000 (the last of 9) fired by b" in page(Facts(run), judge(run), tmp_path)


def test_what_else_a_role_has_logged_hides_no_chain(tmp_path: Path) -> None:
    links = raised("b", "Lost", cause="Gone").details["links"]
    logged = event("b", "logged", 3.0, text="step 3", links=links), event("b", "logged", 3.5, text="giving up")
    run = script("seed=0", *logged, event("b", "exit", 4.0, status=7))
    text = page(Facts(run), judge(run), tmp_path)
    assert "exited with status 7; it had logged: step 3" in text
    assert "raised from <code>Gone: why</code>" in text


def test_the_error_of_the_command_is_shown_with_its_chain(tmp_path: Path) -> None:
    run = script("seed=0", raised(COMMAND, "OSError", cause="Lost"), status=1)
    assert "raised from <code>Lost: why</code>" in page(Facts(run), judge(run), tmp_path)


def test_versions_are_told_once(tmp_path: Path) -> None:
    ups = [event(role, "up", 0.1, torch="2.13.0", python="3.11.7") for role in "ab"]
    text = page(Facts(script("seed=0", *ups)), judge(script("seed=0", *ups)), tmp_path)
    assert text.count("torch 2.13.0") == text.count("python 3.11.7") == 1


def test_a_call_without_an_end_is_drawn_until_its_caller_or_callee_ends(tmp_path: Path) -> None:
    begun, other = event("a", "invoke", 1.0, site="shop:pay", nth=1, to="b"), event("c", "exit", 2.0, status=0)
    run = script("seed=0", begun, *started("c"), other)
    assert [call[3] for call in drawn(Read(page(Facts(run), judge(run), tmp_path)))["calls"]] == [9.0]


def test_a_run_of_which_nothing_is_known_has_a_page(tmp_path: Path) -> None:
    run = Run("prepared", Plan(), Timeline((), {}, ()), complete=False)
    found = drawn(Read(page(Facts(run), judge(run), tmp_path)))
    assert (found["begin"], found["end"]) == (0.0, 1.0)


def test_a_call_is_executed_in_its_own_life(tmp_path: Path) -> None:
    """The second life makes a call of the same number, which no fault hits."""
    begun = [event("a", "invoke", 1.0, **PAY, to="b", faults=[0]), event("a", "invoke", 5.0, **PAY, to="b", process=11)]
    there = [event("b", "executing", 1.2, **PAY, caller="a"), event("b", "executed", 1.3, **PAY, caller="a")]
    run = script(CRASH, *begun, *there, *started("a", 4.0, 11))
    found = drawn(Read(page(Facts(run), judge(run), tmp_path)))
    assert [(call[2], *call[6:]) for call in found["calls"]] == [(1.0, 1.2, 1.3), (5.0, None, None)]


def test_the_command_is_that_of_the_run(tmp_path: Path) -> None:
    """With the trace of RRefs; that of a folder that `prepare` has made is not known."""
    run = script("seed=0", event("a", "tracing", 1.0))
    text = page(Facts(run), judge(run), tmp_path)
    assert "python -m faults run --healthy --leaks trace --script -- shop" in text
    unknown = {COMMAND: End("Returned", "returned", 110.0)}
    assert "python -m faults run" not in page(Facts(script(ends=unknown)), judge(script(ends=unknown)), tmp_path)


def test_the_command_of_a_tutorial_has_its_case(tmp_path: Path) -> None:
    """Also where it is the published one, which is not that of the command without options."""
    text = tmp_path / "a text"
    text.write_text("some words")
    given = ["rnn", "--steps", "50", "--text", str(text)]
    first, _ = tutorial_of("run", "", given, [HEALTHY])
    run = replace(script("seed=0"), name=first.name, ends={})
    (command,) = re.findall("python -m faults run (rnn [^<]*)", page(Facts(run), judge(run), tmp_path))
    again, _ = tutorial_of("run", "", shlex.split(unescape(command)), [HEALTHY])
    assert again.name == first.name
    assert "steps=50" in first.name


def test_the_command_has_a_lane_from_its_start_to_its_end(tmp_path: Path) -> None:
    found = drawn(Read(page(Facts(script()), judge(script()), tmp_path)))
    assert found["lives"][-1] == [2, 0.0, 10.0, "●", "returned, with status 0"]


def test_who_else_has_judged_a_run_gives_the_first_line(tmp_path: Path) -> None:
    run = script("seed=0")
    text = page(Facts(run), judge(run), tmp_path, said=("failed", "This test failed."))
    assert "failed.</strong> This test failed." in text
    assert ">Rules<" not in text


@pytest.mark.parametrize(("count", "shown"), [(8, 8), (9, 9)])
def test_of_many_events_the_middle_is_left_out(count: int, shown: int) -> None:
    events = [(float(number), str(number), "") for number in range(count)]
    found = shortened(events, 8)
    assert len(found) == shown
    assert found[0] == events[0]
    assert found[-1] == events[-1]
    assert ("1 more events before this" in [text for _, text, _ in found]) == (count == 9)


def test_a_run_whose_ends_nobody_has_recorded_is_drawn(tmp_path: Path) -> None:
    """Such as that of a test, or of a folder that `prepare` has made: its roles have lanes, and calls are drawn."""
    events = tuple(event(role, "start", 0.0, pid=number) for number, role in enumerate("ab", 1))
    made = [*calls(3), *calls(1, "torch.distributed.rpc.api:_gather_to_leader")]  # the last one by torch itself
    run = Run("test.py::test", Plan(), Timeline((*events, *made), {"c": 1}, ("a", "b", "c")), complete=False)
    found = drawn(Read(page(Facts(run), judge(run), tmp_path)))
    assert found["lanes"] == ["a", "b", "c"]
    assert [call[4] for call in found["calls"]] == ["ok"] * 3
    assert [str(life[-1]) for life in found["lives"] if isinstance(life, list)] == ["has no recorded end"] * 2
