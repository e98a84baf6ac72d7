"""Remote calls, compared with the same local calls."""

from __future__ import annotations

import pytest
import torch.distributed.rpc as rpc

from reference.outcome import RoleFailed
from reference.rpc_basics import Refused, call, refuse
from reference.world import launch


def attempt(form: str, to: str, kind: str) -> tuple[str, str]:
    """Runs on a role: type and text of what arrives when ``refuse`` raises on ``to``."""
    forms = {
        "rpc_sync": lambda: rpc.rpc_sync(to, refuse, args=(kind,)),
        "rpc_async": lambda: rpc.rpc_async(to, refuse, args=(kind,)).wait(),
        "call": lambda: call(to, refuse, (kind,)),
    }
    try:
        forms[form]()
    except Exception as error:
        return type(error).__name__, str(error)
    return "nothing", ""


@pytest.mark.parametrize("to", ["a", "b"])
def test_each_form_of_call_keeps_the_types_of_exceptions_that_are_documented(to: str) -> None:
    """Erratum 0.13: which forms keep which types (torch 2.6 to 2.15); `call` keeps all."""
    with launch(["a", "b"]) as world:
        for form in ("rpc_sync", "rpc_async"):
            assert world.call("a", attempt, form, to, "ValueError")[0] == "ValueError"
            for kind in ("KeyError", "Refused"):
                arrived, text = world.call("a", attempt, form, to, kind)
                assert arrived == "RuntimeError"
                assert f"{kind}: On WorkerInfo" in text.replace("'", "")
        for kind in ("ValueError", "KeyError", "Refused"):
            arrived, text = world.call("a", attempt, "call", to, kind)
            assert arrived == kind
            assert "asked to" in text


def refused_by(to: str) -> None:
    """Runs on a role."""
    call(to, refuse, ("Refused",))


def test_the_users_own_class_reaches_the_user() -> None:
    with launch(["a", "b"]) as world, pytest.raises(RoleFailed) as caught:
        world.call("a", refused_by, "b")
    assert getattr(caught.value.outcome, "type", None) == f"{Refused.__module__}.Refused"
