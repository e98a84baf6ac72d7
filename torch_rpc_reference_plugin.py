"""Loads `faults.pytest_plugin` into pytest, from the entry point of the installed package.

pytest imports this by a name that no other project has. Where another project's `faults` or `reference` hides the
package's own, the plugin stays away and says so in one line, instead of ending pytest in a traceback.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from torch_rpc_reference_startup import give_back, hiding, say

if TYPE_CHECKING:
    import pytest

# pytest's own command does not look for modules in the folder that it is started in; the tests there may do.
HIDDEN = hiding(os.getcwd())  # noqa: PTH109

if not HIDDEN:
    give_back()  # pytest imports plugins by itself, to rewrite their assertions

pytest_plugins = [] if HIDDEN else ["faults.pytest_plugin"]

# Now, because pytest may end by an option that it does not know without the plugin; of xdist's processes one says it.
if HIDDEN and "PYTEST_XDIST_WORKER" not in os.environ:
    say(f"its pytest plugin is not used: {HIDDEN}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    """Name a module that the tests themselves could not import, because the plugin has imported its own before."""
    late = "" if HIDDEN or not exitstatus else hiding()
    if late:
        choice = "tests that import the former need -p no:torch_rpc_reference_plugin"
        terminalreporter.write_line(f"torch-rpc-reference: {late}, but its pytest plugin was imported first: {choice}")
