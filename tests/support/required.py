"""Skip a test where this machine lacks something, but not where the environment says that all have to run, as in CI."""

from __future__ import annotations

import os

import pytest

HOSTS, C = "REFERENCE_REQUIRE_HOSTS", "REFERENCE_REQUIRE_C"


def require(lacking: str | None, variable: str = HOSTS) -> None:
    """Skip the test if something is ``lacking``, or fail it if ``variable`` is set."""
    if lacking and os.environ.get(variable):
        pytest.fail(f"{lacking}; {variable} is set")
    if lacking:
        pytest.skip(lacking)
