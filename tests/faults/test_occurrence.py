"""A fault chooses its calls by the caller's own count, or by a draw that depends on nothing else."""

from __future__ import annotations

import hashlib
import math

import pytest

from faults.inject.call.envelope import chance, concerns, hits
from faults.plan import Plan

SITE = "shop:pay"


def numbers(text: str, role: str = "a", site: str = SITE, calls: int = 10) -> list[int]:
    """Return which of so many calls the first fault of the plan hits."""
    plan = Plan.parse(text)
    return [nth for nth in range(1, calls + 1) if 0 in hits(plan, role, site, nth)]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("", [1]),
        ("nth=3", [3]),
        ("nth=2-4", [2, 3, 4]),
        ("every=true", list(range(1, 11))),
        ("chance_percent=100", list(range(1, 11))),
    ],
)
def test_a_fault_hits_its_occurrence(words: str, wanted: list[int]) -> None:
    assert numbers(f"Duplicate site={SITE} {words}") == wanted


def test_other_sites_and_roles_are_not_hit() -> None:
    assert numbers(f"Duplicate site={SITE} every=true", site="shop:refund") == []
    assert numbers(f"Duplicate site={SITE} every=true role=b") == []
    assert numbers(f"Duplicate site={SITE} every=true role=b", role="b") == list(range(1, 11))


def test_calls_to_another_callee_are_neither_hit_nor_counted() -> None:
    plan = Plan.parse(f"Duplicate site={SITE} to=b nth=2; Duplicate site={SITE} nth=2")
    assert list(hits(plan, "a", SITE, 5, "b", 2)) == [0]
    assert list(hits(plan, "a", SITE, 2, "b", 1)) == list(hits(plan, "a", SITE, 2, "c", 2)) == [1]
    assert list(hits(plan, "a", SITE, 2)) == [1]


def test_only_calls_are_hit() -> None:
    assert hits(Plan.parse("Crash role=a at=step:1@a"), "a", SITE, 1) == {}


def test_several_faults_keep_their_numbers() -> None:
    plan = Plan.parse(
        f"Crash role=a at=up@a; Duplicate site={SITE}; Drop site={SITE} side=reply nth=2; Duplicate site={SITE}"
    )
    assert list(hits(plan, "a", SITE, 1)) == [1, 3]
    assert list(hits(plan, "a", SITE, 2)) == [2]


def test_an_order_concerns_its_roles() -> None:
    (fault,) = Plan.parse(f"Order site={SITE} roles=a,b seconds=1").faults
    assert [concerns(fault, role) for role in "abc"] == [True, True, False]


def drawn(seed: int, fault: int, role: str, nth: int) -> float:
    """Compute the same in another way: the digest's first eight bytes in hexadecimal, as a fraction."""
    words = "\0".join(map(str, [seed, fault, role, SITE, nth]))
    return math.ldexp(int(hashlib.sha256(words.encode()).hexdigest()[:16], 16), -64)


@pytest.mark.parametrize("role", ["a", "b"])
@pytest.mark.parametrize("seed", [0, 1, 2**62])
def test_a_chance_is_a_draw_by_its_arguments(seed: int, role: str) -> None:
    wanted = [nth for nth in range(1, 201) if drawn(seed, 0, role, nth) < 0.25]
    assert numbers(f"seed={seed}; Duplicate site={SITE} chance_percent=25", role, calls=200) == wanted
    assert 20 < len(wanted) < 80


def test_chances_differ_by_everything_they_depend_on() -> None:
    found = {chance(*each) for each in [(0, 0, "a", SITE, 1), (1, 0, "a", SITE, 1), (0, 1, "a", SITE, 1)]}
    found |= {chance(*each) for each in [(0, 0, "b", SITE, 1), (0, 0, "a", "shop:x", 1), (0, 0, "a", SITE, 2)]}
    assert len(found) == 6
    assert all(0 <= each < 1 for each in found)
