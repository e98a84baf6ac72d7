"""Which RRefs and contexts count as leaks, from plain data: what the roles held, by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from faults.judge import holdings
from faults.ledger import Ledger, read
from faults.ledger.snapshot import (
    FUNCTION,
    GLOBAL,
    UNSEEN,
    VALUE,
    Entered,
    Held,
    Ident,
    Made,
    Sent,
    Snapshot,
    to_events,
)

# RRefs that `master`, worker 0, has made: one of a value at `ps`, and one of a value at `agent`.
AT_PS, AT_AGENT = (0, 1), (0, 2)


def held(rref: Ident, owner: str, root: str, *of: Ident, idle: bool = False) -> Held:
    return Held((rref,), owner, "argument", "shop.py:41 in keep", "the holder", root, of, idle)


def world(*, master: Held | None = None, ps: Held | None = None, agent: Held | None = None) -> dict[str, Snapshot]:
    roles = {"master": master, "ps": ps, "agent": agent}
    return {
        role: Snapshot(role, number, held=() if each is None else (each,))
        for number, (role, each) in enumerate(roles.items())
    }


# The value at ps holds an RRef to that at agent, and the other way round.
BY_PS, BY_AGENT = held(AT_AGENT, "agent", VALUE, AT_PS), held(AT_PS, "ps", VALUE, AT_AGENT)


@pytest.mark.parametrize(
    ("snapshots", "wanted"),
    [
        (world(), 0),
        (world(ps=BY_PS, agent=BY_AGENT), 2),
        (world(ps=replace(BY_PS, of=(AT_AGENT,), owner="ps")), 1),  # a value that holds an RRef to itself
        *((world(ps=BY_PS, agent=BY_AGENT, master=held(AT_PS, "ps", root)), 0) for root in (FUNCTION, GLOBAL, UNSEEN)),
        (world(ps=BY_PS), 0),  # nobody holds the value at ps any more: it is about to go
        (world(ps=BY_PS, agent=replace(BY_AGENT, of=((0, 7),))), 0),
        (world(ps=BY_PS, agent=replace(BY_AGENT, of=(AT_AGENT, (0, 7)))), 0),  # one of two values may be in use
    ],
)
def test_an_rref_is_lost_if_only_values_hold_it_to_which_nothing_leads(
    snapshots: dict[str, Snapshot], wanted: int
) -> None:
    found = holdings.leaks(snapshots, ended=False, every=True)
    assert len(found) == wanted
    assert all(each.endswith("; the holder holds it, and no variable of any role leads there") for each in found)
    assert holdings.leaks(snapshots, ended=True, every=False) == []


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("idle", [False, True])
@pytest.mark.parametrize("root", [FUNCTION, GLOBAL, UNSEEN, VALUE])
def test_an_idle_rref_of_a_global_is_a_leak_at_the_end(root: str, idle: bool, ended: bool) -> None:
    snapshots = world(agent=held(AT_PS, "ps", root, (0, 7), idle=idle))
    leaks, kept = holdings.leaks(snapshots, ended=ended, every=True), holdings.kept(snapshots)
    assert bool(leaks) == (root == GLOBAL and idle and ended)
    assert bool(kept) == ((root == GLOBAL and not idle) or (root == FUNCTION and idle))
    assert not leaks or leaks[0].endswith("holds it, and agent has got another there since it last used it")


@pytest.mark.parametrize(("ended", "abandoned", "wanted"), [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 1)])
def test_a_context_is_a_leak_if_nothing_can_leave_it_or_at_the_end(ended: int, abandoned: int, wanted: int) -> None:
    snapshots = {"master": Snapshot("master", 0, contexts=(Entered(3, "train.py:20 in step", bool(abandoned)),))}
    found = holdings.leaks(snapshots, ended=bool(ended), every=False)
    gone = ", and nothing is left that can leave it" if abandoned else ""
    told = [f"autograd context 3 of master: entered at train.py:20 in step, not left{gone}"]
    assert found == (told if wanted else [])
    assert holdings.everything(snapshots) == told


def test_holders_lines_and_makers_are_named() -> None:
    made = Made("shop.py:12 in step", (7,))
    snapshots = {
        "trainer1": Snapshot("trainer1", 1, made=(made,), sent=(Sent("trainer2", "shop.py:30 in pass_on", ((1, 7),)),)),
        "trainer2": Snapshot("trainer2", 2, held=(held((1, 7), "ps", GLOBAL),)),
        "ps": Snapshot("ps", 0, held=(Held(((0, 4), (0, 5)), "ps", "made", "", "a list", GLOBAL),)),
        "silent": Snapshot("silent", 3, held=(held((9, 1), "ps", GLOBAL),)),
    }
    assert holdings.everything(snapshots) == [
        "RRef 7 of ps: fork held by trainer2 since shop.py:41 in keep (an argument), "
        "made by trainer1 at shop.py:12 in step; the holder holds it",
        "2 RRefs (4, 5) of ps: held by ps itself since a line that was not seen, where ps made them; a list holds them",
        "RRef 1 of ps: fork held by silent since shop.py:41 in keep (an argument), "
        "made by worker 9 at a line that is not known; the holder holds it",
    ]
    assert holdings.last_seen(snapshots, "trainer2") == [
        "RRef 7, made by trainer1 at shop.py:12 in step: last seen when trainer1 sent it to trainer2 "
        "at shop.py:30 in pass_on"
    ]
    assert holdings.last_seen(snapshots, "ps") == []


def test_an_rref_on_its_way_keeps_a_world_from_being_settled() -> None:
    assert holdings.are_settled({"a": Snapshot("a", 0, pickled=2, unpickled=1), "b": Snapshot("b", 1, unpickled=1)})
    assert not holdings.are_settled({"a": Snapshot("a", 0, pickled=2, unpickled=1), "b": Snapshot("b", 1)})


def test_a_ledger_keeps_snapshots_world_by_world(tmp_path: Path) -> None:
    """Two worlds one after the other in the same processes, of which the second has a role that was not traced."""
    snapshots = [
        Snapshot(
            "a", 0, 3, 2, 1, (BY_PS,), (Made("x.py:1 in f", (1, 2), ("x.py:1 in f",)),), (Entered(1, "x.py:2 in g"),)
        ),
        Snapshot("b", 1, 5, held=(BY_AGENT, BY_PS)),
    ]
    for snapshot in snapshots:
        for place in ("first", "second"):
            ledger = Ledger(tmp_path, snapshot.role, world=place)
            ledger.write("tracing")
            ledger.write("up", workers=["a", "b"])
            for event, fields in to_events(snapshot) if (snapshot.role, place) != ("b", "second") else ():
                ledger.write(event, **fields)
            ledger.close()
    timeline = read(tmp_path)
    assert not timeline.torn
    assert holdings.taken(timeline) == [{"a": snapshots[0], "b": snapshots[1]}, {"a": snapshots[0]}]
    leaks, notes = holdings.of_timeline(timeline)
    assert notes == ["what b held is not known: it took no part in a common shutdown of a world of fixed size"]
    assert [each.partition(":")[0] for each in leaks] == ["autograd context 1 of a"] * 2  # `a` has sent one RRef more


def test_why_a_role_took_no_snapshot_is_told(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, "a")
    ledger.write("tracing")
    ledger.write("untraced", error="RuntimeError: no")
    ledger.close()
    assert holdings.of_timeline(read(tmp_path)) == ([], ["what a held is not known: RuntimeError: no"])


def test_a_snapshot_that_broke_off_is_no_part_of_the_next_worlds(tmp_path: Path) -> None:
    snapshot = Snapshot("a", 0, held=(BY_PS,))
    for place, lines in (("first", 1), ("second", None)):
        ledger = Ledger(tmp_path, "a", world=place)
        for event, fields in list(to_events(snapshot))[:lines]:
            ledger.write(event, **fields)
        ledger.close()
    assert holdings.taken(read(tmp_path)) == [{"a": snapshot}]


def test_events_that_no_role_writes_are_refused(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, "a")
    ledger.write("held", rrefs=3)
    ledger.write("traced", worker=0)
    ledger.close()
    with pytest.raises(ValueError, match=r"^no snapshot of what a holds: "):
        holdings.taken(read(tmp_path))
