"""Which cells a sweep chooses."""

from __future__ import annotations

from argparse import ArgumentTypeError
from typing import Any

import pytest

from faults.cli.sweep_command import chosen, part
from faults.plan.kinds import Called
from faults.run.sweep import Cell, Unhurt, every_way, variants
from tests.support.targets import options

SITES = {
    "shop:Till.pay": Called({"a": 3, "b": 2}, ("ps",)),
    "shop:Till.total": Called({"a": 1}, ("ps",)),
    "shop:help": Called({"a": 1, "b": 1}, ("c", "d")),
    "shop:Shop": Called({"a": 2}, ("c",), remote=True),
    "torch.distributed.rpc.api:_gather_to_leader": Called({"a": 1}, ("b",)),
    "shop:<a b>\n": Called({"a": 1}, ("b",)),
}
WAYS = list(every_way(SITES, 3.0, variants(None)))
CELLS = [each for each in WAYS if isinstance(each, Cell)]
UNHURT = [each for each in WAYS if isinstance(each, Unhurt)]


def sites_of(**given: Any) -> list[str]:
    return list(dict.fromkeys(cell.site for [cell] in chosen(CELLS, options(**given))))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("pay", ["shop:Till.pay"]),
        ("shop:Till.*", ["shop:Till.pay", "shop:Till.total"]),
        ("*:help", ["shop:help"]),
        ("shop:[Th]*", ["shop:Till.pay", "shop:Till.total", "shop:help"]),
        ("shop", ["shop:Till.pay", "shop:Till.total", "shop:help", "shop:Shop"]),
    ],
)
def test_sites_are_chosen_by_a_part_of_their_name_or_by_a_pattern(text: str, wanted: list[str]) -> None:
    assert sites_of(sites=text) == wanted


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_each_cell_is_in_one_part(count: int) -> None:
    parts = [chosen(CELLS, options(part=(number, count))) for number in range(1, count + 1)]
    assert sorted(CELLS.index(cell) for each in parts for [cell] in each) == list(range(len(CELLS)))
    assert max(map(len, parts)) < len(CELLS) or count == 1


def test_a_part_does_not_depend_on_the_other_cells() -> None:
    """A machine on which a program calls one more function still runs the same cells of the others."""
    more = [cell for cell in CELLS if cell.site != "shop:help"]
    for number in (1, 2):
        here, there = (chosen(every, options(part=(number, 2))) for every in (CELLS, more))
        assert [cell for [cell] in here if cell in more] == [cell for [cell] in there]


@pytest.mark.parametrize("text", ["", "1", "0/2", "3/2", "1/0", "-1/2", "1/2/3", "a/b", "1/99999", "1 / 2"])
def test_a_part_is_one_of_its_number(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match=r"^wanted I/N with I from 1 to N, such as 1/4, got "):
        part(text)
    assert part("2/4") == (2, 4)


def test_what_is_not_hurt_has_a_reason() -> None:
    """Every site has a cell or a reason, and every kind of it."""
    *others, unnamed = UNHURT
    assert unnamed.reason.startswith("no plan can name it: ")
    assert {(each.site, each.injection): each.reason for each in others} == {
        ("shop:Till.total", "Order"): "a alone calls it",
        ("shop:Shop", "Raise flight"): "a `remote` has no future that could fail",
        ("shop:Shop", "Order"): "a alone calls it",
        ("shop:help", "Order"): "it executes on several roles: c, d",
        ("torch.distributed.rpc.api:_gather_to_leader", "all"): "not a call of the program; a plan can name it",
    }
    for site in SITES:
        found = {each.injection for each in WAYS if each.site == site}
        assert "all" in found or found == {*variants(None)}
