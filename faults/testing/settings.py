"""The options, the configuration and the marks of the pytest plugin, and what it keeps in pytest's stash."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from faults.plan.plan import Plan, PlanError
from faults.testing.leaks import KINDS
from faults.testing.plan_marks import of_option
from faults.testing.running_test import RunningTest
from reference.system.printable import shown

LEAKS = ("all", "fixtures", "off")
DIGITS = 1000  # of a seed: Python reads no more than 4300
MARKERS = (
    "world(*roles, **arguments): of a module: the roles of its idle world, and more for `reference.world.launch`",
    "plan(*texts, unseen=False, activate=True): what goes wrong in this test; docs/pytest.md",
    f"leaves(*kinds): what this test may leave: {', '.join(KINDS)}",
)

RUNNING_TEST = pytest.StashKey[RunningTest]()
IDLE_WORLDS = pytest.StashKey[list[Any]]()  # of `Idle`
PROCESS_MARK = pytest.StashKey[str]()
TEMPORARY = pytest.StashKey[str]()  # where temporary files go, so that another run's are not taken for this one's


def add_options(parser: pytest.Parser) -> None:
    """Add the options of the command line and of the configuration file."""
    group = parser.getgroup("faults")
    told = "the plan of every test that can be hurt, instead of its own; several are joined"
    group.addoption("--faults-plan", metavar="TEXT", action="append", help=told)
    group.addoption("--faults-keep", metavar="DIR", help="keep ledgers and logs of failed tests there")
    group.addoption("--faults-leaks", choices=LEAKS, help="which tests are held to what they leave (fixtures)")
    group.addoption("--faults-seed", metavar="N", help="the fixture faults_seed, and Hypothesis's seed if it has none")
    parser.addini("faults_leaks", f"default of --faults-leaks: {', '.join(LEAKS)}", default="fixtures")
    told = "whether worlds of the fixtures are isolated, unless they say otherwise"
    parser.addini("faults_isolated", told, type="bool", default=False)
    parser.addini("faults_seed", "default of --faults-seed; none leaves Hypothesis alone", default="")


def check(config: pytest.Config) -> Plan | None:
    """Refuse options that cannot be. Returns the plan of ``--faults-plan``. Raises UsageError."""
    try:
        plan = of_option(config.option.faults_plan)
    except PlanError as error:
        raise pytest.UsageError(f"--faults-plan: {error}") from None
    if leaks_of(config) not in LEAKS:
        raise pytest.UsageError(f"faults_leaks must be one of {', '.join(LEAKS)}, got {leaks_of(config)!r}")
    keep = config.option.faults_keep
    if keep is not None and (not keep or (os.path.lexists(keep) and not Path(keep).is_dir())):
        raise pytest.UsageError(f"--faults-keep must be a folder, got {shown(keep)}")
    seed = seed_text(config)
    if not (seed or "0").isdecimal() or len(seed) > DIGITS:
        wanted = f"a whole number from 0, of at most {DIGITS} digits"
        raise pytest.UsageError(f"--faults-seed must be {wanted}, got {shown(seed)}")
    return plan


def leaks_of(config: pytest.Config) -> str:
    """Which tests are held to what they leave: `LEAKS`."""
    return str(config.option.faults_leaks or config.getini("faults_leaks"))


def seed_text(config: pytest.Config) -> str:
    return str(config.option.faults_seed or config.getini("faults_seed"))
