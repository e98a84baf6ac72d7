"""The options, the configuration and the marks of the pytest plugin, and what it keeps in pytest's stash."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from faults.plan.plan import Plan, PlanError
from faults.testing.plan_marks import of_option
from faults.testing.running_test import RunningTest
from reference.system.text import shown

LEAKS = ("all", "fixtures", "off")
# The kinds of leaks; the last two concern the roles of an idle world.
KINDS = ("processes", "memory", "rrefs", "contexts")
DIGITS = 1000  # the longest seed; Python reads at most 4300 digits
MARKERS = (
    "world(*roles, **arguments): for a module: the roles of its idle world, and arguments for `reference.world.launch`",
    "plan(*texts, unseen=False, activate=True, expect_error=''): the faults of this test (docs/pytest.md)",
    f"leaves(*kinds): the kinds of leaks that this test may have: {', '.join(KINDS)}",
)

RUNNING_TEST = pytest.StashKey[RunningTest]()
IDLE_WORLDS = pytest.StashKey[list[Any]]()  # each an `Idle`
PROCESS_MARK = pytest.StashKey[str]()


def add_options(parser: pytest.Parser) -> None:
    """Add the options of the command line and of the configuration file."""
    group = parser.getgroup("faults")
    told = "run every test that uses a world under this plan, instead of its own; several options are joined"
    group.addoption("--faults-plan", metavar="TEXT", action="append", help=told)
    group.addoption("--faults-keep", metavar="DIR", help="keep ledgers and logs of failed tests in DIR")
    group.addoption("--faults-report", metavar="DIR", help="write a page of what happened in each failed test to DIR")
    group.addoption("--faults-leaks", choices=LEAKS, help="the tests that fail if they leak something (fixtures)")
    told = "trace the RRefs and autograd contexts of the fixtures' worlds, to name the holders of those that leak"
    group.addoption("--faults-leaks-trace", action="store_true", help=told)
    parser.addini("faults_leaks_trace", "default of --faults-leaks-trace", type="bool", default=False)
    group.addoption(
        "--faults-seed", metavar="N", help="value of the fixture faults_seed, and Hypothesis's seed if it has none"
    )
    parser.addini("faults_leaks", f"default of --faults-leaks: {', '.join(LEAKS)}", default="fixtures")
    told = "whether the fixtures' worlds are isolated, unless a test says otherwise"
    parser.addini("faults_isolated", told, type="bool", default=False)
    parser.addini("faults_seed", "default of --faults-seed; without one, Hypothesis's seed is not set", default="")


def check(config: pytest.Config) -> Plan | None:
    """Refuse impossible options, make those that are folders absolute, and return the plan of ``--faults-plan``.

    Raises:
        UsageError: an option is impossible.
    """
    try:
        plan = of_option(config.option.faults_plan)
    except PlanError as error:
        raise pytest.UsageError(f"--faults-plan: {error}") from None
    if leaks_of(config) not in LEAKS:
        raise pytest.UsageError(f"faults_leaks must be one of {', '.join(LEAKS)}, got {leaks_of(config)!r}")
    for option in ("keep", "report"):
        place = getattr(config.option, f"faults_{option}")
        if place is not None and (not place or (os.path.lexists(place) and not Path(place).is_dir())):
            raise pytest.UsageError(f"--faults-{option} must be a folder, got {shown(place)}")
        if place is not None:  # a test may go to another folder
            setattr(config.option, f"faults_{option}", str(Path.cwd() / place))
    seed = seed_text(config)
    if not (seed or "0").isdecimal() or len(seed) > DIGITS:
        wanted = f"a whole number from 0, of at most {DIGITS} digits"
        raise pytest.UsageError(f"--faults-seed must be {wanted}, got {shown(seed)}")
    return plan


def leaks_of(config: pytest.Config) -> str:
    """Return which tests fail if they leak something: one of `LEAKS`."""
    return str(config.option.faults_leaks or config.getini("faults_leaks"))


def traces(config: pytest.Config) -> bool:
    """Return whether the fixtures' worlds trace their RRefs and autograd contexts."""
    return bool(config.option.faults_leaks_trace or config.getini("faults_leaks_trace"))


def seed_text(config: pytest.Config) -> str:
    return str(config.option.faults_seed or config.getini("faults_seed"))
