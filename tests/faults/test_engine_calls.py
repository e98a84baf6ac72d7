"""Sites of what torch sends by itself: their names are nobody else's, and what cannot be hurt is refused."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings

from faults.plan import Plan, PlanError
from faults.plan.fields import BACKWARD, ENGINE_SITES, TO_HERE
from faults.strategies import plans


@pytest.mark.parametrize("site", ENGINE_SITES)
def test_no_function_has_such_a_site(site: str) -> None:
    module, _, name = site.partition(":")
    assert module == torch.__name__
    assert not hasattr(torch, name)


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (
            f"Corrupt site={TO_HERE} side=request change=nan",
            "wants 'side' 'reply', got 'request', which holds no tensor",
        ),
        (f"Delay site={BACKWARD} side=reply seconds=1", "wants 'side' 'request', got 'reply', which is empty"),
        (f"Corrupt site={BACKWARD} side=reply change=nan", "wants 'side' 'request', got 'reply', which is empty"),
        *(
            (f"{fault} site={BACKWARD}", f"{fault.split()[0]} cannot hit {BACKWARD}: torch sends gradients itself")
            for fault in ("Drop side=request", "Raise side=request", "Duplicate", "Crash when=before")
        ),
        (f"Order site={BACKWARD} roles=a,b seconds=1", f"Order cannot hit {BACKWARD}"),
        (f"Delay site={BACKWARD} to=b side=request seconds=1", "has no 'to': Python does not see to which role"),
    ],
)
def test_what_cannot_be_hurt_is_refused_with_the_reason(plan: str, said: str) -> None:
    with pytest.raises(PlanError) as caught:
        Plan.parse(plan)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


SITES = {TO_HERE: {"a": 3, "b": 1}, BACKWARD: {"a": 2, "b": 2}}


@settings(deadline=None, max_examples=200)
@given(plans(SITES, ["a", "b"], places=["call"], kinds=["Delay", "Drop", "Order", "Corrupt", "Crash"]))
def test_only_plans_that_can_hurt_are_drawn(plan: Plan) -> None:
    assert all(fault.traits.refusal(fault) is None for fault in plan.faults)
