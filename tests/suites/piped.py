"""A failing test whose folder cannot be copied, and another one. Run by test_pytest_plugin.py."""

import os


def test_with_a_pipe(run_dir):
    os.mkfifo(run_dir / "pipe")
    raise AssertionError


def test_another(run_dir):
    pass
