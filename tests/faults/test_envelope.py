"""A call's names, and how a fault chooses its calls: by the caller's count, or by a draw."""

from __future__ import annotations

import hashlib
import math
import operator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
from torch.distributed.rpc import rref_proxy

from faults.inject.call.envelope import concerns, hits, sites_of
from faults.plan import Plan
from faults.plan.places import name_of
from tests.support import roles_shop as shop

SITE = "shop:pay"
ALL = list(range(1, 11))


def numbers(text: str, role: str = "a", site: str = SITE, calls: int = 10) -> list[int]:
    """Return which of so many calls the first fault of the plan hits."""
    plan = Plan.parse(text)
    return [nth for nth in range(1, calls + 1) if 0 in hits(plan, role, site, nth)]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [("", [1]), ("nth=3", [3]), ("nth=2-4", [2, 3, 4]), ("every=true", ALL), ("chance_percent=100", ALL)],
)
def test_a_fault_hits_its_occurrence(words: str, wanted: list[int]) -> None:
    assert numbers(f"Duplicate site={SITE} {words}") == wanted


def test_other_sites_and_roles_are_not_hit() -> None:
    assert numbers(f"Duplicate site={SITE} every=true", site="shop:refund") == []
    assert numbers(f"Duplicate site={SITE} every=true role=b") == []
    assert numbers(f"Duplicate site={SITE} every=true role=b", role="b") == ALL


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


HERE = shop.HERE


class Special(shop.Till):
    def __call__(self) -> None: ...


class Contrary:
    """Says that it equals everything."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]

    def __call__(self) -> None: ...


@dataclass
class Reference:
    """The part of an RRef that its proxies use."""

    kind: type = Special

    def _get_type(self) -> Any:
        return self.kind


@pytest.mark.parametrize(
    ("called", "site"),
    [
        (shop.asynchronous, f"{HERE}asynchronous"),
        (shop.Till, f"{HERE}Till"),
        (shop.Till().method, f"{HERE}Till.method"),
        (shop.Till.static, f"{HERE}Till.static"),
        (Special.of_class, f"{HERE}Till.of_class"),  # the class that defines it, not the one that inherits it
        (Special(), "tests.faults.test_envelope:Special.__call__"),
        (Contrary(), "tests.faults.test_envelope:Contrary.__call__"),
        (partial(shop.function, 1), "functools:partial.__call__"),
        (len, "builtins:len"),
        (str.upper, "builtins:str.upper"),
        ("x".upper, "builtins:str.upper"),
        (operator.add, "_operator:add"),
        (torch.Tensor.add, "torch._C:TensorBase.add"),
    ],
)
def test_a_function_has_its_module_and_qualified_name(called: Any, site: str) -> None:
    assert name_of(called) == site
    assert sites_of(called, (), {}) == (site,)


@pytest.mark.parametrize("proxy", [rref_proxy._local_invoke, rref_proxy._local_invoke_async_execution])
def test_a_call_through_a_proxy_belongs_to_the_method(proxy: Any) -> None:
    assert sites_of(proxy, (Reference(), "method", (shop.function,), {}), {}) == (f"{HERE}Till.method",)


@pytest.mark.parametrize("name", ["forward", "predict"])
def test_a_call_through_a_proxy_of_a_script_module_belongs_to_the_method(name: str) -> None:
    """Its class has no functions, and raises AttributeError for ``forward``, which it has."""
    sites = sites_of(rref_proxy._local_invoke, (Reference(torch.jit.ScriptModule), name, (), {}), {})
    assert sites == (f"torch.jit._script:ScriptModule.{name}",)


def test_a_call_with_a_function_as_argument_belongs_to_both() -> None:
    both = (f"{HERE}call_method", f"{HERE}Till.method")
    assert sites_of(shop.call_method, (shop.Till.method, 1), {}) == both
    assert sites_of(shop.call_method, (1,), {"method": shop.Till.method}) == both
    assert sites_of(shop.function, (shop.function,), {}) == (f"{HERE}function",)
    assert sites_of(shop.call_method, (shop.Till,), {}) == both[:1]
