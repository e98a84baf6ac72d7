"""Tests that put a plan into pytest's own process. Run by test_pytest_plugin_plans.py."""

import pytest
import torch.distributed.rpc as rpc

from faults import hook
from faults.plan import Plan
from faults.run.runs import prepared


@pytest.fixture
def folder(tmp_path):
    return prepared(Plan.parse("Delay site=shop:price side=reply seconds=1"), tmp_path)


def test_installed(folder):
    hook.install(folder)


def test_nothing_of_it_after_an_installed_one():
    assert not hook.present()
    assert rpc.init_rpc.__module__ == rpc.__name__


def test_active(folder):
    hook.activate(folder, "a")
    raise OSError("before it is undone")


def test_nothing_of_it_after_an_active_one():
    assert not hook.present()
    assert rpc.shutdown.__module__ == rpc.api.__name__


def test_removed(folder):
    hook.install(folder)
    assert hook.present()
    hook.remove()


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    hook.install(prepared(Plan.parse("Delay site=shop:price side=reply seconds=1"), tmp_path_factory.mktemp("plan")))
    yield
    hook.remove()


@pytest.mark.parametrize("number", [1, 2])
def test_kept_for_a_module(installed, number):
    assert hook.present()
