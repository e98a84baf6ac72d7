"""A call fails, is lost or doubled, or a role is stopped or killed: the run is equal, or fails loudly.

Each run has one fault, because a fault can keep another from firing (a crash, all later ones), and `not fired` is a
defect here. Each run has a world of its own, and timeouts of a second.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from faults.judge.bound import bound_of_timeout
from faults.judge.rules import Judgement
from faults.ledger.moments_seen import census
from faults.plan import Fault, Plan
from faults.run.runs import Subject, of_tutorial, run
from faults.run.sweep import healthy
from faults.strategies import faults
from reference.verify import quick
from tests.properties import bugs
from tests.properties.properties import counterexample, examples
from tests.support.roles_idle import Planted

pytestmark = pytest.mark.long

KINDS = ("Raise", "Duplicate", "Drop", "Crash", "Pause")
# Without the one that torch never causes: these tutorials do not look for it.
AS_TORCH = tuple(kind for kind in KINDS if kind != "Duplicate")
# Seconds of a pause: shorter than the timeout, and longer.
SECONDS = (0.2, 2.0)
TIMEOUT = 1.0
GOOD = ("equal", "failed loudly")
STATES = "reference.batch_reinforce:Agent.select_action_batch"


class Lab:
    """Runs of one tutorial under one fault each, in folders of their own."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder, self.numbers = name, folder, count()
        self.subject: Subject = of_tutorial(quick(name, timeout=TIMEOUT))
        self.verdicts: Counter[str] = Counter()

    @cached_property
    def sites(self) -> dict[str, Any]:
        """The calls of a healthy run by site and caller. The timeouts of this run are long."""
        patient = partial(run, of_tutorial(quick(self.name)), recorded=True)
        found = healthy(patient, self.name, self.folder / "healthy")
        return {site: calls.callers for site, calls in census(found.timeline).items()}

    def faults(self, kinds: tuple[str, ...] = KINDS, **asked: Any) -> st.SearchStrategy[Fault]:
        places = asked.pop("places", ["call", "process"])
        return faults(self.sites, list(self.subject.roles), kinds=kinds, places=places, seconds=SECONDS, **asked)

    def judged(self, fault: Fault) -> Judgement:
        place = self.folder / f"{next(self.numbers):04d}"
        deadline = 2 * bound_of_timeout(self.subject.timeout) + 10
        _, judgement = run(self.subject, Plan((fault,)), place, deadline=deadline)
        self.verdicts[judgement.verdict] += 1
        return judgement


@pytest.fixture(scope="module")
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return Lab(request.param, tmp_path_factory.mktemp(request.param))


def ends_cleanly(name: str, count: int, kinds: tuple[str, ...] = KINDS) -> Callable[..., None]:
    """Return the property, with ``count`` examples, that a tutorial under one of these faults is equal, or fails
    loudly."""

    def test(lab: Lab, data: st.DataObject) -> None:
        # A chance of 10 % may mean never, which cannot be told from a fault that did not fire.
        fault = data.draw(lab.faults(kinds).filter(lambda each: each.chance_percent is None))
        judgement = lab.judged(fault)
        assert judgement.verdict in GOOD, f"{fault}\n{judgement}"

    test.__name__ = test.__qualname__ = f"test_{name}_is_equal_or_ends_cleanly"
    of_lab = pytest.mark.parametrize("lab", [name], indirect=True)
    made: Callable[..., None] = of_lab(examples(count, data=st.data())(test))
    return made


test_parameter_server_is_equal_or_ends_cleanly = ends_cleanly("parameter_server", 3)
# `tests.reference.test_batch_parameter_server_under_faults` doubles the reports.
test_batch_parameter_server_is_equal_or_ends_cleanly = ends_cleanly("batch_parameter_server", 3, AS_TORCH)
test_sharded_parameter_server_is_equal_or_ends_cleanly = ends_cleanly("sharded_parameter_server", 3, AS_TORCH)
test_pipeline_is_equal_or_ends_cleanly = ends_cleanly("pipeline", 3)
test_dist_autograd_is_equal_or_ends_cleanly = ends_cleanly("dist_autograd", 3)
test_hybrid_ddp_is_equal_or_ends_cleanly = ends_cleanly("hybrid_ddp", 3)
test_rnn_is_equal_or_ends_cleanly = ends_cleanly("rnn", 3)
test_reinforce_is_equal_or_ends_cleanly = ends_cleanly("reinforce", 3, AS_TORCH)
test_batch_reinforce_is_equal_or_ends_cleanly = ends_cleanly("batch_reinforce", 3, AS_TORCH)


def test_a_last_call_of_a_step_that_is_doubled_ends_batch_reinforce(tmp_path: Path) -> None:
    """As published, a state does not say of which step it is: the second execution of a step's last call counts for the
    next step. The observer's own call for that step is one too many, there or after the last step."""
    lab = Lab("batch_reinforce", tmp_path)
    last = f"Pause role=observer1 at=call:{STATES}#1@observer1 seconds=0.3"
    plan = Plan.parse(f"{last}; Duplicate site={STATES} role=observer1 nth=1")
    found, judgement = run(lab.subject, plan, tmp_path / "run", deadline=2 * bound_of_timeout(lab.subject.timeout) + 10)
    assert judgement.verdict == "needless failure", str(judgement)
    noticed = r"AgentFailed: .*observer1 (calls twice in one step|reports after the last of 20 steps)"
    assert re.search(noticed, found.ends["agent"].text), found.ends["agent"]


def test_a_planted_bug_is_found(tmp_path: Path) -> None:
    """A server that applies a doubled call twice is silently wrong."""
    lab = Lab("parameter_server", tmp_path)
    ps = Planted(bugs.apply_again, lab.subject.roles["ps"])
    lab.subject = replace(lab.subject, roles={**lab.subject.roles, "ps": ps})
    doubled = lab.faults(("Duplicate",), places=["call"]).filter(lambda each: each.chance_percent is None)
    found = counterexample(doubled, lambda fault: lab.judged(fault).verdict == "wrong", count=12)
    assert found.site.endswith("apply_gradients")
