"""The limit on an agent that starts, and that it is lifted afterwards."""

from __future__ import annotations

from typing import Any

import pytest
from torch.distributed.rpc import api

from faults.inject.messages import without_shared_memory
from tests.support.disk import files_of
from tests.support.roles_messages import file_limit as limit

MIB = 1 << 20


def starter() -> Any:
    """Return torch's function that starts an agent, or what replaces it."""
    return vars(api)["_set_and_start_rpc_agent"]


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, int]]:
    """Calls of the replacement of torch's function, each with its agent and the limit; `None` cannot be an agent."""
    seen: list[tuple[object, int]] = []

    def start(agent: Any) -> None:
        seen.append((agent, limit()))
        if agent is None:
            raise RuntimeError("no agent")

    monkeypatch.setattr(api, "_set_and_start_rpc_agent", start)
    return seen


def test_files_are_limited_only_while_an_agent_starts(starts: list[tuple[object, int]]) -> None:
    before, start = limit(), starter()
    with without_shared_memory():
        assert limit() == before
        starter()("one")
        assert limit() == before
    starter()("other")
    assert starts == [("one", MIB - 1), ("other", before)]
    assert starter() is start


def test_the_limit_is_lifted_even_if_the_agent_does_not_start(starts: list[tuple[object, int]]) -> None:
    before, start = limit(), starter()
    with pytest.raises(RuntimeError, match=r"^no agent$"), without_shared_memory():
        starter()(None)
    assert starts == [(None, MIB - 1)]
    assert limit() == before
    assert starter() is start


def test_a_lower_limit_of_the_programs_own_stays(starts: list[tuple[object, int]]) -> None:
    with files_of(MIB // 2):
        with without_shared_memory():
            starter()("one")
        assert starts == [("one", MIB // 2)]
        assert limit() == MIB // 2
