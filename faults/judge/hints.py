"""Say why a fault did not fire: what was called instead, which moments came, and what may have been meant."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from faults.ledger.moments_seen import census, moments_seen, roles_of, steps_of
from faults.ledger.record import Run
from faults.plan.fields import ENGINE_SITES
from faults.plan.places import INTERNAL, Moment
from faults.plan.plan import Fault

# The most moments or sites that a hint lists.
LISTED = 6


class Reasons:
    """Explains from the ledgers of one run why faults of its plan did not fire."""

    def __init__(self, run: Run) -> None:
        self._timeline = run.timeline
        self._sites = census(run.timeline, internal=True)
        ended = {each.details.get("fault") for each in run.timeline.of("effective")}
        self._begun = {each.details.get("fault") for each in run.timeline.of("fired")} - ended
        self._failed = {each.details["fault"]: each.details.get("why") for each in run.timeline.of("failed")[::-1]}

    def of(self, number: int, fault: Fault) -> str:
        """Return the reason in brackets: the recorded failure, or what was seen instead. Empty if nothing is known."""
        if fault.place == "process" and fault.role is not None and (unseen := self._unseen(fault.role)):
            return f" ({unseen})"
        if number in self._failed:
            return f" ({self._failed[number]})"
        if fault.traits.unfinished and number in self._begun:
            return f" ({fault.traits.unfinished})"
        if fault.site is not None and fault.place == "call":
            calls = self._sites.get(fault.site)
            callers = {} if calls is None else calls.callers if fault.to is None else calls.to.get(fault.to, {})
            which = "this site" if fault.to is None else f"this site to {fault.to}"
            instead = self._instead(fault.site)
            if calls is not None and calls.callees and not callers:
                instead = f"; its calls went to {_listed(list(calls.callees))}"
            return f" (recorded calls of {which}: {counted(callers) or 'none'}{instead})"
        return f" ({self._of_moment(fault.moment)})" if fault.moment else ""

    def _instead(self, site: str) -> str:
        """Name the site that may have been meant, or else all that were called; empty if the site was called."""
        if site in self._sites:
            return ""
        # Gradients are recorded only where the plan names them.
        if site.startswith("torch") and site not in ENGINE_SITES:
            meant = nearest(site, list(ENGINE_SITES))
            if meant is not None:
                return f"; did you mean {meant}?"
        near = nearest(site, list(self._sites))
        if near is not None:
            calls = (f"{often(count)} by {role}" for role, count in self._sites[near].callers.items())
            return f"; did you mean {near}, called {', '.join(calls)}?"
        own = [each for each in self._sites if not each.startswith(INTERNAL)]
        return f"; called were {_listed(own)}" if own else ""

    def _unseen(self, role: str) -> str:
        """Name the roles that were seen if this one was not; empty if it was."""
        roles = roles_of(self._timeline)
        if role in roles:
            return ""
        return f"no role {role} was seen, only {_listed(roles)}" if roles else "no role was seen"

    def _of_moment(self, moment: Moment) -> str:
        if unseen := self._unseen(moment.role):
            return unseen
        told = {"step": self._of_step, "call": self._of_call}.get(moment.event)
        return f"{told(moment) if told else 'it did not come'}; moments of {moment.role}: {self._moments(moment.role)}"

    def _moments(self, role: str) -> str:
        own = [each for each in moments_seen(self._timeline) if each.first.role == role]
        return _listed([str(each) for each in own]) or "none"

    def _of_step(self, moment: Moment) -> str:
        """Steps are counted as the program's log records say; a program without any has no steps."""
        if not self._timeline.of("step"):
            return "this program announces no step: none of its log records has extra={'step': N}"
        steps = steps_of(moment.role, self._timeline)
        if not steps:
            others = dict.fromkeys(event.role for event in self._timeline.of("step"))
            return f"{moment.role} announced no step, but {_listed(list(others))} did"
        return f"{moment.role} announced steps {steps[0]} to {steps[-1]}"

    def _of_call(self, moment: Moment) -> str:
        calls = self._sites.get(moment.site)
        return f"calls of {moment.site}: {counted(calls.callers) if calls else 'none'}{self._instead(moment.site)}"


def counted(callers: Mapping[str, int]) -> str:
    """Say how often each role called: ``3 by till, 1 by shop``."""
    return ", ".join(f"{count} by {role}" for role, count in callers.items())


def often(times: int) -> str:
    return {1: "once", 2: "twice"}.get(times, f"{times} times")


def nearest(site: str, sites: list[str]) -> str | None:
    """Find the site that may have been meant: the same name in another module, or one with few other letters."""
    names, name = {each: each.partition(":")[2] for each in sites}, site.partition(":")[2]
    same = [each for each in sites if names[each] == name]
    ends = [each for each in sites if names[each].split(".")[-1] == name.split(".")[-1]]
    close = get_close_matches(name, names.values(), n=1)
    return next(iter([*same, *ends, *(each for each in sites if names[each] in close)]), None)


def _listed(words: list[str]) -> str:
    more = f" and {len(words) - LISTED} more" if len(words) > LISTED else ""
    return ", ".join(words[:LISTED]) + more
