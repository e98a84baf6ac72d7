"""Loads `faults.pytest_plugin` into pytest, from the entry point of the installed package.

pytest imports this by a name that no other project has. Where another project's `faults` or `reference` hides the
package's own, the plugin stays away and says so in one line, instead of ending pytest in a traceback.
"""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

from torch_rpc_reference_startup import give_back, hiding, say

# The command `pytest` does not look for modules in its current folder, but the tests there may.
HIDDEN = hiding(os.getcwd())  # noqa: PTH109

if not HIDDEN:
    give_back()  # pytest imports plugins by an importer of its own, to rewrite their assertions

pytest_plugins = [] if HIDDEN else ["faults.pytest_plugin"]

# Printed now, because without the plugin pytest may end by an unknown option. xdist's workers do not print it again.
if HIDDEN and "PYTEST_XDIST_WORKER" not in os.environ:
    say(f"its pytest plugin is not used: {HIDDEN}")


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests() -> Generator[None, object, object]:
    """Name the hidden module if a conftest.py cannot import it, because pytest then ends before its summary."""
    try:
        return (yield)
    except Exception:
        if late := _late():
            say(late)
        raise


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    """Name the hidden module if the tests failed, because they may not have been able to import it."""
    late = _late()
    if late and exitstatus:
        terminalreporter.write_line(f"torch-rpc-reference: {late}")


def _late() -> str:
    """Name a module that hides a package of this project, but came too late: the plugin has imported the package."""
    late = "" if HIDDEN else hiding()
    choice = "tests that import the former need -p no:torch_rpc_reference_plugin"
    return late and f"{late}, but its pytest plugin was imported first: {choice}"
