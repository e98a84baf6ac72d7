"""The bytes that a process has sent and received; test_isolated_network.py compares those of two ways."""

from __future__ import annotations

from reference.rpc.traffic import traffic
from tests.support import own_process


def test_a_count_leaves_no_file_open() -> None:
    before = own_process.everything()
    traffic()
    assert own_process.left_since(before) == []
