"""The names of called functions. Calls through real proxies are in test_calls.py."""

from __future__ import annotations

import operator
from functools import partial
from typing import Any

import pytest
import torch
from torch.distributed.rpc import rref_proxy

from faults.inject.call.envelope import sites_of
from faults.plan.places import name_of
from tests.support import roles_shop as shop

HERE = shop.HERE


class Special(shop.Till):
    def __call__(self) -> None: ...


class Contrary:
    """Says that it equals everything."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]

    def __call__(self) -> None: ...


class Reference:
    """The part of an RRef that its proxies use."""

    def _get_type(self) -> Any:
        return Special


@pytest.mark.parametrize(
    ("called", "site"),
    [
        (shop.function, f"{HERE}function"),
        (shop.asynchronous, f"{HERE}asynchronous"),
        (shop.Till, f"{HERE}Till"),
        (shop.Till.method, f"{HERE}Till.method"),
        (shop.Till().method, f"{HERE}Till.method"),
        (shop.Till.static, f"{HERE}Till.static"),
        (shop.Till.of_class, f"{HERE}Till.of_class"),
        (Special.of_class, f"{HERE}Till.of_class"),  # the class that defines it, not the one that inherits it
        (Special(), "tests.faults.test_site:Special.__call__"),
        (Contrary(), "tests.faults.test_site:Contrary.__call__"),
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


def test_a_call_with_a_function_as_argument_belongs_to_both() -> None:
    both = (f"{HERE}call_method", f"{HERE}Till.method")
    assert sites_of(shop.call_method, (shop.Till.method, 1), {}) == both
    assert sites_of(shop.call_method, (1,), {"method": shop.Till.method}) == both
    assert sites_of(shop.function, (shop.function,), {}) == (f"{HERE}function",)
    assert sites_of(shop.call_method, (shop.Till,), {}) == both[:1]
