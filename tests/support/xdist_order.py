"""Spread the tests of `pytest -n 4`: a file goes to one worker, so its worlds start once; long ones go first.

``python -m tests.support.xdist_order REPORT ...`` records how long they take.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.project.junit import node_id

# Files whose parametrizations, by their first word such as the tutorial or the program, may go to different workers.
SPLIT = (
    "tests/faults/test_programs.py",
    "tests/faults/test_script.py",
    "tests/matrix/test_matrix.py",
    "tests/reference/test_clusters.py",
    "tests/properties/test_gradients_under_loss.py",
)
# The time of each scope, longest first, one per line: "seconds scope". Recorded by `main`, not kept by hand.
SECONDS = Path(__file__).with_name("seconds.txt")


@cache
def recorded() -> dict[str, float]:
    """Return the seconds by scope, of scopes that take one or more."""
    lines = [line.partition(" ") for line in SECONDS.read_text().splitlines()]
    return {scope: float(seconds) for seconds, _, scope in lines}


def scope(nodeid: str) -> str:
    """Return the scope of a test: one scope goes to one worker."""
    file, _, rest = nodeid.partition("::")
    if file not in SPLIT:
        return file
    _, _, parameter = rest.partition("[")
    return f"{file}[{parameter.partition('-')[0].rstrip(']')}"


def place(item: pytest.Item) -> float:
    """Return a test's key for sorting. The longest scopes begin first, so that no worker waits long for others at the
    end."""
    return -recorded().get(scope(item.nodeid), 0.0)


def spreading(config: pytest.Config, log: Any) -> Any:
    """A scheduler: xdist's own, with another scope, and in the order in which the tests were collected."""
    from xdist.scheduler import LoadScopeScheduling  # without xdist there need be no such module

    class Spreading(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope(nodeid)

    config.option.loadscopereorder = False
    return Spreading(config, log)


def main(reports: Sequence[str]) -> None:
    """Record what the tests of these reports took: ``-o junit_family=xunit1 --junitxml=FILE`` writes one."""
    found: Counter[str] = Counter()
    for report in reports:
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            found[scope(node_id(case))] += float(case.get("time") or 0)
    SECONDS.write_text("".join(f"{taken:.0f} {name}\n" for name, taken in found.most_common() if taken >= 1))


if __name__ == "__main__":
    main(sys.argv[1:])
