"""Add to the report of a failing test its plan, timeline, logs and stacks, and where its files are kept."""

from __future__ import annotations

import pytest

from faults.testing.running_test import RunningTest, place_for
from reference.system.text import one_line, printable


def tell(item: pytest.Item, running: RunningTest, report: pytest.TestReport) -> None:
    """Add the sections of a failing test to its report, and the folder in which its files are kept."""
    over = report.when == "teardown"
    report.sections += running.sections(over=over)
    if item.config.option.faults_keep:
        report.sections.append(("faults: kept", _keep(running, item, over)))


def _keep(running: RunningTest, item: pytest.Item, over: bool) -> str:
    """Name the folder with its files, which are copied when its worlds have ended; or say why they cannot be kept."""
    try:
        running.keep = place_for(item.config.option.faults_keep, item.nodeid)
        if over:
            running.save()
    except OSError as error:
        running.keep = None
        return one_line(f"nothing: {error}")
    return printable(str(running.keep))
