"""Loads `faults.pytest_plugin` into pytest, from the entry point of the installed package.

pytest imports this by a name that no other project has. Where another project's `faults` or `reference` hides the
package's own, the plugin stays away and says so in one line, instead of ending pytest in a traceback.
"""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

from torch_rpc_reference_startup import give_back, hiding, say

# pytest's own command does not look for modules in the folder that it is started in; the tests there may do.
HIDDEN = hiding(os.getcwd())  # noqa: PTH109

if not HIDDEN:
    give_back()  # pytest imports plugins by itself, to rewrite their assertions

pytest_plugins = [] if HIDDEN else ["faults.pytest_plugin"]

# Now, because pytest may end by an option that it does not know without the plugin; of xdist's processes one says it.
if HIDDEN and "PYTEST_XDIST_WORKER" not in os.environ:
    say(f"its pytest plugin is not used: {HIDDEN}")


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests() -> Generator[None, object, object]:
    """Name a module that a conftest.py could not import: pytest ends then, before its summary."""
    try:
        return (yield)
    except Exception:
        if late := _late():
            say(late)
        raise


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    """Name a module that the tests themselves could not import."""
    late = _late()
    if late and exitstatus:
        terminalreporter.write_line(f"torch-rpc-reference: {late}")


def _late() -> str:
    """Which module hides a package of this project, but came too late, because the plugin has imported its own."""
    late = "" if HIDDEN else hiding()
    choice = "tests that import the former need -p no:torch_rpc_reference_plugin"
    return late and f"{late}, but its pytest plugin was imported first: {choice}"
