"""Two tests that leave shared memory: one asks for a fixture, one does not. Run by test_pytest_plugin.py."""

from multiprocessing.shared_memory import SharedMemory

kept = []  # Python removes it at the end of the run


def test_with_a_fixture(run_dir):
    kept.append(SharedMemory(create=True, size=8))


def test_without():
    kept.append(SharedMemory(create=True, size=8))
