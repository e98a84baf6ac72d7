"""What the report of a failing test says: its plan, timeline, logs and stacks, and where its files are kept."""

from __future__ import annotations

import pytest

from faults.testing.running_test import RunningTest, place_for
from reference.system.printable import one_line, printable


def tell(item: pytest.Item, scene: RunningTest, report: pytest.TestReport) -> None:
    """What happened, in a failing test's report; and where its files are kept."""
    over = report.when == "teardown"
    report.sections += scene.sections(over=over)
    if item.config.option.faults_keep:
        report.sections.append(("faults: kept", _keep(scene, item, over)))


def _keep(scene: RunningTest, item: pytest.Item, over: bool) -> str:
    """Where its files are, or will be when its worlds are over; or why they cannot be there."""
    try:
        scene.keep = place_for(item.config.option.faults_keep, item.nodeid)
        if over:
            scene.save()
    except OSError as error:
        scene.keep = None
        return one_line(f"nothing: {error}")
    return printable(str(scene.keep))
