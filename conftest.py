"""The tests' wiring; what they use stands in `faults.pytest_plugin`."""

from __future__ import annotations

import pytest

from faults.header import lines

# As the entry point is called, so that an installed package does not register it a second time.
pytest_plugins = ["faults.pytest_plugin", "pytester"]


def pytest_report_header() -> list[str]:
    return lines()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("kills_launcher"):
            item.add_marker(pytest.mark.leaves("files"))
