"""Tests that know nothing of torch. Run by test_pytest_plugin.py."""

import sys


def test_torch_is_not_imported():
    assert "torch" not in sys.modules


def test_nor_by_its_fixtures_for_folders(run_dir, faults_seed):
    assert run_dir.is_dir()
    assert "torch" not in sys.modules
