"""The limit on an agent that starts, and that it is lifted afterwards."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from torch.distributed.rpc import api

from faults.inject.messages import without_shared_memory
from tests.support.roles_messages import file_limit as limit

MIB = 1 << 20


def starter() -> Any:
    """Return torch's function that starts an agent, or what replaces it."""
    return vars(api)["_set_and_start_rpc_agent"]


@pytest.fixture
def lowered() -> Iterator[Callable[[int], None]]:
    """Lower this process's limit, until the end of the test."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda soft: resource.setrlimit(resource.RLIMIT_FSIZE, (soft, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


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


@pytest.mark.parametrize(("own", "wanted"), [(MIB // 2, MIB // 2), (4 * MIB, MIB - 1)])
def test_a_lower_limit_of_the_programs_own_stays(
    own: int, wanted: int, starts: list[tuple[object, int]], lowered: Callable[[int], None]
) -> None:
    lowered(own)
    with without_shared_memory():
        starter()("one")
    assert starts == [("one", wanted)]
    assert limit() == own
