"""Every kind of fault of calls, at every sort of site and on each of its sides: it is refused, or it is proven."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from faults.judge.causes import without_effect
from faults.judge.facts import Facts
from faults.ledger import read
from faults.ledger.record import Run
from faults.plan import Fault, Plan, PlanError
from faults.plan.fields import ENGINE_SITES
from faults.plan.kinds import CALLS, OfCall
from faults.run.runs import scope
from reference.world import launch
from tests.support.roles_every_kind import SORTS, play, stay


def shapes(kind: OfCall, site: str) -> Iterator[dict[str, Any]]:
    """Yield the fields of a fault of this kind, once for each of its words."""
    lasting = 20.0 if kind.one_for_all else 0.2
    given = {"site": (site,), "roles": (("a", "c"),), "seconds": (lasting,)}
    choices = [given.get(name) or kind.words_of(name) for name in kind.needs]
    for values in product(*choices):
        who = {} if "roles" in kind.needs else {"role": "a"}
        yield {"kind": kind.name, **who, **dict(zip(kind.needs, values, strict=True))}


def refusal(fields: dict[str, Any]) -> str | None:
    try:
        Fault(**fields)
    except PlanError as error:
        return str(error)
    return None


EVERY = [fields for kind in CALLS for site in SORTS for fields in shapes(kind, site)]
REFUSED = [fields for fields in EVERY if refusal(fields) is not None]
PROVEN = [fields for fields in EVERY if fields not in REFUSED]


def test_every_kind_can_hit_a_function() -> None:
    assert {fields["kind"] for fields in PROVEN if fields["site"] not in ENGINE_SITES} == {kind.name for kind in CALLS}


def test_what_a_kind_cannot_hit_is_refused_by_name() -> None:
    for fields in REFUSED:
        assert fields["site"] in ENGINE_SITES
        assert fields["site"] in (refusal(fields) or ""), fields


@pytest.mark.long
@pytest.mark.parametrize("fields", PROVEN, ids=lambda fields: " ".join(map(str, fields.values())))
def test_what_a_kind_can_hit_is_proven(fields: dict[str, Any], tmp_path: Path) -> None:
    plan = Plan((Fault(**fields),))
    call = partial(play, fields["site"])
    with (
        scope(plan, tmp_path, "abc") as arguments,
        launch({"a": call, "b": stay, "c": call}, deadline=60, **arguments) as world,
    ):
        world.wait()
    facts = Facts(Run(name="", plan=plan, timeline=read(tmp_path)))
    assert facts.fired == (True, "1 of 1 faults"), facts.run.timeline
    assert list(without_effect(facts)) == [], facts.run.timeline
