"""Every promise of README, the manuals and the command lines' help, and the tests that would notice if it were broken.

A promise is a text that stands in its document, word for word. `test_documented.py` fails if it is not there any more,
or if a test is gone; so a change of a promise needs a change of this table. The table has no measured figures, nothing
about torch (docs/behaviours.md and docs/errata.md name their tests themselves), and no verdicts of the tutorials under
each kind of fault (docs/matrix.md is printed from what its test runs).

A document is a file, or a command, which stands for its help.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.project.documented_commands import COMMANDS
from tests.project.documented_faults import FAULTS
from tests.project.documented_pages import PAGES
from tests.project.documented_readme import README

# Document, promise, tests: by file and name, as in docs/behaviours.md.
DOCUMENTED: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "README.md": README,
    **FAULTS,
    **PAGES,
    **COMMANDS,
}
