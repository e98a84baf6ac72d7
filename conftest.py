"""Configure the tests of this project; the plugin that they use is `faults.pytest_plugin`."""

from __future__ import annotations

import multiprocessing.util
import os
import signal
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.support.without_collections import pytest_collection_finish  # noqa: F401 (before anything imports torch)

# isort: split
import torch

from faults.inject import messages
from faults.inject.call import calls
from faults.inject.network import network
from reference import TUTORIALS
from reference.world import launch, start
from reference.world.rpc_agent import LOCAL_OPTIONS
from tests.preforked import ONE_THREAD
from tests.support import own_process
from tests.support.roles_plain import name

# In xdist's workers and in all commands of tests, threads of OpenMP that wait sleep instead of spinning: there are more
# processes than cores, and spinning took a tenth of the processors' time.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# What roles would import themselves for a second or two, with their first optimizer or first error, if the first world
# of this process, which starts the forkserver, is of a test that needs no tutorial.
start.also_preloaded.extend(["torch._dynamo", *(f"reference.{name}" for name in TUTORIALS)])

# The entry point of an installed package, `torch_rpc_reference_plugin`, names it too: it is registered once.
pytest_plugins = ["faults.pytest_plugin", "pytester", "tests.tiers.spread", "tests.tiers.share"]

# Profiles of properties: `default` makes a quarter of the examples, `whole` all, the same each time; `seeded` all,
# others for each seed (`--faults-seed`), and `soak` a hundred times as many new ones.
_calm = settings(deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("default", _calm, max_examples=25, derandomize=True)
settings.register_profile("whole", _calm, max_examples=100, derandomize=True)
settings.register_profile("seeded", _calm, max_examples=100, derandomize=False, database=None)
settings.register_profile("soak", _calm, max_examples=10_000, derandomize=False)
settings.load_profile("default")

# A shell starts background commands with Ctrl-C ignored, `nohup` any command with SIGHUP ignored, and children inherit
# that; tests of these signals need them handled. SIGHUP still does not end this process.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "run tests/properties/implementation.py against this command (CMD CASE_DIR OUT_DIR) or module:function"
    parser.addoption("--implementation", metavar="CMD", help=text)


@pytest.fixture(scope="session", autouse=True)
def _temporary_files() -> Iterator[None]:
    """Give the processes of tests a folder for temporary files: torchrun keeps logs, `mp.spawn` a file per failed
    process, and a killed launcher leaves its own. The folder's path is short, because it may hold sockets."""
    multiprocessing.util.get_temp_dir()  # for this process's own sockets, before a test names another folder
    own = tempfile.gettempdir()  # this process's own files stay where they were
    new = tempfile.TemporaryDirectory(prefix="tests-", dir=own, ignore_cleanup_errors=True)
    with new as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", folder)
        yield


@pytest.fixture(autouse=True)
def _nothing_of_this_process_is_left() -> Iterator[None]:
    """Fail a test that leaves a thread of this process, or a folder of a world or a run. What else is left is the
    plugin's to find."""
    before = own_process.of_any_test()
    yield
    left = own_process.left_since(before, own_process.of_any_test)
    assert not left, f"left by this test: {', '.join(left)}"


@pytest.fixture(scope="session")
def forkserver() -> None:
    """Start the forkserver, for tests with short deadlines: it takes seconds to import torch."""
    with launch(["first"], deadline=120) as world:
        world.call("first", name)


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the programs of a test take one thread per operator, because they share the cores."""
    for variable, number in ONE_THREAD.items():
        monkeypatch.setenv(variable, number)


def pytest_report_header() -> list[str]:
    """Return lines on torch, on how roles communicate, and on the places for faults that are available here."""
    talk = ", ".join(f"{name.strip('_')} {' '.join(values)}" for name, values in LOCAL_OPTIONS.items())
    lacking = {"calls": calls.missing(), "faulty agent": messages.missing(), "namespaces": network.missing()}
    places = "; ".join(f"{place}: {reason or 'available'}" for place, reason in lacking.items())
    return [f"torch {torch.__version__}, {torch.get_num_threads()} threads in this process; {talk}", places]
