"""What the tests of the conformance kit share."""

from __future__ import annotations

import pytest

from reference.conform.export import export
from reference.conform.suite import Suite, chosen, open_suite


@pytest.fixture(scope="session")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    """The core suite, exported once."""
    folder = tmp_path_factory.mktemp("conform") / "suite"
    export(folder, chosen("core"))
    return open_suite(folder)
