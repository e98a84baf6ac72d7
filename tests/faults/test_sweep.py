"""Sweeps: their cells, and what they find in programs with and without a defect."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from faults.judge.rules import Judgement, judge
from faults.ledger import Timeline
from faults.ledger.moments_seen import Moments
from faults.ledger.record import Run, read
from faults.plan import Fault, Plan
from faults.plan.fields import ENGINE_SITES
from faults.plan.kinds import Called
from faults.plan.kinds.calls import Delay
from faults.plan.places import Moment
from faults.run.runs import Subject
from faults.run.sweep import Cell, SweepFailed, Unhurt, breadth_first, every_way, healthy, variants
from tests.support import roles_subjects as plays
from tests.support.targets import options, sweep_of

SITES = {
    "m:f": Called({"a": 3, "b": 2}, ("ps",)),
    "m:g": Called({"a": 1}, ("ps",)),
    "m:h": Called({"a": 1, "b": 1}, ("c", "d")),
    "m:r": Called({"a": 1}, ("ps",), remote=True),
}


def cells(sites: Mapping[str, Called], *named: str, moments: Sequence[Moments] = ()) -> list[Cell]:
    return [each for each in every_way(sites, 3.0, variants(named or None), moments) if isinstance(each, Cell)]


UNASKED = variants(None)


def test_each_site_has_a_cell_per_kind_and_occurrence() -> None:
    """f has every kind twice; g, called once, has each once, but no order; h has no order, because it executes in two
    places; r has no call that fails in flight either."""
    found = cells(SITES)
    every = len(UNASKED)
    assert Counter((cell.site, cell.occurrence) for cell in found) == {
        ("m:f", "first"): every,
        ("m:f", "last"): every,
        ("m:g", "first"): every - 1,
        ("m:h", "first"): every - 1,
        ("m:h", "last"): every - 1,
        ("m:r", "first"): every - 2,
    }
    assert len(set(found)) == len(found)
    assert [cell.caller for cell in found if (cell.site, cell.injection) == ("m:f", "Duplicate")] == ["a#1", "b#2"]
    orders = [cell.fault for cell in found if cell.injection == "Order"]
    assert orders == [
        Fault(kind="Order", site="m:f", roles=("b", "a"), nth=1, seconds=3.0),
        Fault(kind="Order", site="m:f", roles=("b", "a"), nth=2, seconds=3.0),
    ]
    assert found[0] == Cell(
        "m:f", "Delay request", "first", Fault(kind="Delay", site="m:f", role="a", side="request", seconds=0.2, nth=1)
    )


@pytest.mark.parametrize(
    ("named", "wanted"),
    [
        (["Corrupt"], ["Corrupt request", "Corrupt reply"]),
        (["Corrupt reply"], ["Corrupt reply"]),
        (["Crash"], ["Crash before", "Crash after"]),
        (["Crash at", "Crash"], ["Crash before", "Crash after", "Crash at"]),
        (["Hold"], ["Hold request", "Hold reply", "Hold at"]),
        (["Pause"], ["Pause at"]),
        (["Drop request", "Duplicate"], ["Drop request", "Duplicate"]),
    ],
)
def test_a_kinds_first_word_stands_for_what_is_always_swept_of_it_or_for_all(
    named: list[str], wanted: list[str]
) -> None:
    assert variants(named) == wanted
    assert not {"Corrupt reply", "Crash at", "Hold at", "Hold reply", "Pause at"} & {*variants(None)}


def test_moments_are_swept_at_the_first_and_the_last_of_a_role() -> None:
    """A program may have a function that no plan can name."""
    call = Moments(Moment("call", "a", 1, "m:f"), Moment("call", "a", 3, "m:f"))
    moments = [Moments(up := Moment("up", "a"), up), call, Moments(bad := Moment("call", "a", 1, "m:<lambda>"), bad)]
    found = list(every_way({}, 3.0, variants(["Crash at", "Pause"]), moments))
    assert [str(cell.fault) for cell in found if isinstance(cell, Cell)] == [
        "Crash role=a at=up@a",
        "Pause role=a at=up@a seconds=0.5",
        "Crash role=a at='call:m:f#1@a'",
        "Crash role=a at='call:m:f#3@a'",
        "Pause role=a at='call:m:f#1@a' seconds=0.5",
        "Pause role=a at='call:m:f#3@a' seconds=0.5",
    ]
    assert [(each.site, each.injection) for each in found if isinstance(each, Unhurt)] == [("m:<lambda> by a", "all")]


def test_each_site_is_hurt_once_before_any_is_hurt_twice() -> None:
    every = cells(SITES)
    sites = [cell.site for cell in breadth_first(every)]
    assert sites[:8] == [*SITES, *SITES]
    assert sorted(map(str, breadth_first(every))) == sorted(map(str, every))


def test_what_torch_sends_is_swept_by_what_can_hit_it() -> None:
    callers = Called({"a": 1, "b": 2}, ("ps",))
    found = cells({"torch:to_here": callers, "torch:backward": callers}, *UNASKED, "Corrupt")
    kinds = {site: {cell.injection for cell in found if cell.site == site} for site in ENGINE_SITES}
    assert kinds["torch:backward"] == {"Delay request", "Corrupt request"}
    assert kinds["torch:to_here"] == {*UNASKED, "Corrupt reply"} - {"Raise flight"}


def test_a_kind_that_refuses_a_site_hides_no_other_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Delay, "refusal", lambda *_: "not here")
    found = list(every_way({"m:f": SITES["m:f"]}, 3.0, UNASKED))
    refused = [each for each in found if isinstance(each, Unhurt)]
    assert refused == [Unhurt("m:f", f"Delay {side}", "not here") for side in ("request", "reply")]
    assert {each.injection for each in found} == {*UNASKED}


def test_a_subject_that_calls_nothing_is_not_swept(tmp_path: Path) -> None:
    silent = Subject("shop", {"shop": plays.shop}, plays.TIMEOUT)
    with pytest.raises(SweepFailed, match=r"^shop calls no Python function over RPC: a sweep needs at least one call$"):
        sweep_of(silent, options(dir=str(tmp_path / "kept")))


def test_a_healthy_run_that_fails_by_no_rule_is_named_by_its_verdict(tmp_path: Path) -> None:
    """Such as one that torch itself has failed."""
    found = Run("shop", Plan(), Timeline((), {}, ())), Judgement((), "failed loudly")
    with pytest.raises(SweepFailed, match=r"^the healthy run of shop is not healthy: failed loudly$"):
        healthy(lambda *_: found, "shop", tmp_path)


def test_a_part_without_a_cell_runs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep_of(plays.subject(plays.careful), options(sites=plays.PAY, part=(1, 1000), jobs=100_000)) == 0
    said = capsys.readouterr().err
    assert "no cell is in this part: nothing was run\n" in said
    assert "runs at once, not 100000: for 2 roles each, this machine has no more room\n" in said


@pytest.mark.parametrize(
    ("till", "kinds", "status", "counts"),
    [
        (plays.careful, ["Delay", "Raise request"], 0, "4 equal, 2 failed loudly"),
        (plays.careless, ["Raise reply"], 0, "2 equal"),
        (plays.careless, ["Raise request"], 1, "2 wrong"),
        (plays.touchy, ["Delay reply"], 1, "2 needless failure"),
        (plays.careful, ["Corrupt"], 3, "4 not fired"),  # it sends no tensors
    ],
)
def test_a_sweep_prints_its_table_and_gives_its_status(
    till: Any, kinds: list[str], status: int, counts: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The runs are kept if one has failed, and removed if all have passed."""
    assert sweep_of(plays.subject(till), options(sites=plays.PAY, kinds=kinds)) == status
    said = capsys.readouterr()
    assert said.out.splitlines()[-1] == counts
    assert "till#3" in said.out
    assert ("110 in the till, wanted the twin's" in said.out) == (counts == "2 wrong")
    assert re.search(r"^site +\w+", said.out, re.MULTILINE)
    assert max(map(len, said.out.splitlines())) <= 100
    told = [line for line in said.err.splitlines() if " runs, about " not in line]  # which comes every 5 s
    assert (told == []) == (status == 0), said.err
    if status:
        place = Path(told[-1].removeprefix("stored in "))
        assert judge(read(place / "0001")).verdict in ("wrong", "needless failure", "not fired")
        shutil.rmtree(place)
