"""Remote calls, compared with the same local calls."""

from __future__ import annotations

import pytest
import torch.distributed.rpc as rpc

from reference.outcome import RoleFailed
from reference.rpc_basics import Refused, call, refuse
from reference.world import launch
from tests.support.answers import Answer, answer


def attempt(form: str, to: str, kind: str) -> Answer:
    """Runs on a role: what arrives when ``refuse`` raises on ``to``."""
    forms = {
        "rpc_sync": lambda: rpc.rpc_sync(to, refuse, args=(kind,)),
        "rpc_async": lambda: rpc.rpc_async(to, refuse, args=(kind,)).wait(),
        "call": lambda: call(to, refuse, (kind,)),
    }
    return answer(forms[form])


@pytest.mark.parametrize("to", ["a", "b"])
def test_each_form_of_call_keeps_the_types_of_exceptions_that_are_documented(to: str) -> None:
    """Erratum 0.13: which forms keep which types (torch 2.6 to 2.15); `call` keeps all."""
    with launch(["a", "b"]) as world:
        for form in ("rpc_sync", "rpc_async"):
            assert world.call("a", attempt, form, to, "ValueError").error == "ValueError"
            for kind in ("KeyError", "Refused"):
                arrived = world.call("a", attempt, form, to, kind)
                assert arrived.error == "RuntimeError"
                assert f"{kind}: On WorkerInfo" in arrived.text.replace("'", "")
        for kind in ("ValueError", "KeyError", "Refused"):
            arrived = world.call("a", attempt, "call", to, kind)
            assert arrived.error == kind
            assert "asked to" in arrived.text


def refused_by(to: str) -> None:
    """Runs on a role."""
    call(to, refuse, ("Refused",))


def test_the_users_own_class_reaches_the_user() -> None:
    with launch(["a", "b"]) as world, pytest.raises(RoleFailed) as caught:
        world.call("a", refused_by, "b")
    assert getattr(caught.value.outcome, "type", None) == f"{Refused.__module__}.Refused"
