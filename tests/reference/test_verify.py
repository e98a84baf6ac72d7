"""`verify`: what a run in a world of its own is judged by."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reference import rpc_basics
from reference.verify.verify import verify


def test_a_run_of_another_case_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own twin, that of the case in its trace, has the same bits."""
    roles, asked = rpc_basics.roles, rpc_basics.Case(steps=1)
    other = replace(asked, seed=1)
    monkeypatch.setattr(rpc_basics, "roles", lambda _: roles(other))
    row = verify(asked)
    assert (row.verdict, row.difference) == ("wrong", f"the trace is of another case: {other}")
