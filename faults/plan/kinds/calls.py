"""Faults of calls: what each kind does to an `rpc_sync`, `rpc_async` or `remote`, or to what torch's engine sends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from faults.plan import crash_ways
from faults.plan.fields import BACKWARD, ENGINE_SITES, TO_HERE
from faults.plan.kinds.kind import Kind, Seen
from faults.plan.places import PlanError
from faults.plan.possible_faults import Program

if TYPE_CHECKING:
    from faults.plan.plan import Fault

_BOTH = ("request", "reply")
# Why a kind may be unable to hit one side of what torch's engine sends.
_OF_SIDES = {
    (TO_HERE, "request"): "which holds no tensor",
    (TO_HERE, "flight"): "which needs a future that fails",
    (BACKWARD, "reply"): "which is empty and never reaches Python",
}


@dataclass(frozen=True)
class Called:
    """The calls of one site in a healthy run. ``callers``: role to number of calls, of several lives the most in one,
    because each counts anew; ``callees``: the roles that executed them; ``remote``: whether `remote` made one of them;
    ``to``: as ``callers`` for each callee."""

    callers: Mapping[str, int]
    callees: tuple[str, ...]
    remote: bool = False
    to: Mapping[str, Mapping[str, int]] = field(default_factory=dict, compare=False)


class OfCall(Kind):
    """A kind of fault that hits calls of one site.

    Attributes:
        engine_sites: which sides it can hit of what torch's engine sends: of the other sites none. A kind without
            sides has the side None.
        variants: the fields that a sweep gives to it, each under the word that follows its name in the table.
        swept_if_named: why it is swept only if it is named; empty if it always is.
        least_callers: the number of callers that a site needs.
    """

    place = "call"
    mark = "site"
    may: ClassVar[tuple[str, ...]] = ("role", "to", "nth", "every", "chance_percent", "lives")
    engine_sites: ClassVar[Mapping[str, Sequence[str | None]]] = {}
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    swept_if_named: ClassVar[str] = ""
    least_callers: ClassVar[int] = 1

    def refusal(self, fault: Fault) -> str | None:
        if fault.to is not None and fault.site == BACKWARD:
            return f"{self.name} at {fault.site} has no 'to': Python does not see to which role a gradient goes"
        return self.refusal_at(str(fault.site), fault.side)

    def refusal_at(self, site: str, side: str | None) -> str | None:
        """Say in one line why this kind cannot hit a site of torch's engine; None if it can, or at any other site."""
        open_to = self.engine_sites.get(site, ())
        if site not in ENGINE_SITES or side in open_to:
            return None
        if not open_to:
            others = " or ".join(kind.name for kind in KINDS if site in kind.engine_sites)
            return (
                f"{self.name} cannot hit {site}: {ENGINE_SITES[site]}; wanted {others}, or a fault of a process or a "
                f"network with at=call:{site}#N@ROLE"
            )
        why = _OF_SIDES[site, str(side)]
        return f"{self.name} at {site} wants 'side' {' or '.join(map(repr, open_to))}, got {side!r}, {why}"

    def most(self, fault: Fault) -> int | None:
        numbers = fault.numbers
        return None if numbers is None or (fault.role or fault.roles) is None else len(numbers)

    def named_variants(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the name and the fields of each variant."""
        for word, values in self.variants.items():
            yield f"{self.name} {word}".rstrip(), values

    def occurrences(
        self, site: str, calls: Called, values: Mapping[str, Any], turn: float
    ) -> Mapping[str, Mapping[str, Any]]:
        """Return the fields by which a sweep hits the first caller's first call, and the last caller's last one, if
        that is another. ``turn``: seconds that a call waits for its turn. Raises PlanError: a sweep cannot hit them."""
        (first, _), (last, count) = next(iter(calls.callers.items())), list(calls.callers.items())[-1]
        found = {"first": {"role": first, "nth": 1}, "last": {"role": last, "nth": count}}
        if first == last and count == 1:
            del found["last"]
        return found

    def sides(self, site: str) -> list[str | None]:
        """Return the sides of a site that it can hit; [None] if it has no sides, [] if it can hit none."""
        sides: Sequence[str | None] = self.words_of("side") if "side" in self.fields else [None]
        return [side for side in sides if self.refusal_at(site, side) is None]

    def sites(self, program: Program) -> list[str]:
        """Return the sites with enough callers."""
        enough = [site for site, callers in program.calls.items() if len(callers) >= self.least_callers]
        return [site for site in enough if self.sides(site)]

    def is_possible(self, program: Program) -> bool:
        return bool(self.sites(program))

    def choices(self, name: str, program: Program, drawn: Mapping[str, Any]) -> Sequence[Any]:
        if name == "site":
            return self.sites(program)
        if name == "side":
            return self.sides(drawn["site"])
        return list(program.calls[drawn["site"]]) if name == "role" else super().choices(name, program, drawn)


class Delay(OfCall):
    """The request or the reply is late."""

    name = "Delay"
    needs = ("site", "side", "seconds")
    did = "the {side} of {call} was late"
    harm = 0
    gentle = True
    engine_sites: ClassVar = {TO_HERE: _BOTH, BACKWARD: ("request",)}
    variants: ClassVar = {side: {"side": side, "seconds": 0.2} for side in _BOTH}

    def holds_reply(self, fault: Fault) -> bool:
        return fault.side == "reply"

    def had_effect(self, fault: Fault, seen: Seen) -> bool:
        return seen.effective or "failed" in seen.calls  # the caller may give up before the callee records the delay


class Hold(OfCall):
    """The callee holds its GIL, before it executes the call or before it answers."""

    name = "Hold"
    needs = ("site", "side", "seconds")
    did = "{callee}'s Python was stopped by {call}"
    stops_process = True
    harm = 50
    gentle = True
    ends_unseen = True
    engine_sites: ClassVar = {TO_HERE: _BOTH}
    variants: ClassVar = {side: {"side": side, "seconds": 0.2} for side in _BOTH}
    swept_if_named = "is late as a `Delay` is, for all calls of the callee at once"


class _Answered(OfCall):
    """A kind after which the caller gets no answer, or none but an error."""

    def seen_instead(self, details: Mapping[str, Any]) -> str:
        return f"{details['caller']} got an answer nevertheless"

    def had_effect(self, fault: Fault, seen: Seen) -> bool:
        return seen.effective or not seen.calls or not {"value", "arrived"}.issuperset(seen.calls)


class Raise(_Answered):
    """The callee raises, before or after it executes the call; or the caller fails while it executes (``flight``)."""

    name = "Raise"
    needs = ("site", "side")
    may = (*OfCall.may, "error", "text")
    words: ClassVar = {"side": ("flight",)}
    did = "{call} failed by the plan"
    harm = 60
    drawn: ClassVar = {
        "error": (None, "ValueError", "KeyError", "RuntimeError"),
        "text": (None, "a planned error"),
    }
    engine_sites: ClassVar = {TO_HERE: _BOTH}
    variants: ClassVar = {side: {"side": side} for side in (*_BOTH, "flight")}

    def refusal(self, fault: Fault) -> str | None:
        chosen = [name for name in ("error", "text") if getattr(fault, name) is not None]
        if fault.side == "flight" and chosen:
            why = "side='flight' raises RPC's own error of a broken connection"
            return f"{self.name}: {why}, got {' and '.join(chosen)}"
        return super().refusal(fault)

    def had_effect(self, fault: Fault, seen: Seen) -> bool:
        if fault.side == "flight":  # the callee fires it when the call executes, so its caller has to have failed
            return seen.effective or (bool(seen.calls) and "value" not in seen.calls)
        # For `rpc.remote` an "ok" says only that the call arrived: an exception is raised when the value is fetched.
        return seen.effective or not seen.calls or set(seen.calls) != {"value"}

    def occurrences(
        self, site: str, calls: Called, values: Mapping[str, Any], turn: float
    ) -> Mapping[str, Mapping[str, Any]]:
        if calls.remote and values["side"] == "flight":
            raise PlanError("a `remote` has no future that could fail")
        return super().occurrences(site, calls, values, turn)

    def choices(self, name: str, program: Program, drawn: Mapping[str, Any]) -> Sequence[Any]:
        own = name in self.drawn and drawn["side"] == "flight"
        return [None] if own else super().choices(name, program, drawn)


class Drop(_Answered):
    """The request or the reply is lost."""

    name = "Drop"
    needs = ("site", "side")
    did = "the {side} of {call} was lost"
    harm = 80
    engine_sites: ClassVar = {TO_HERE: _BOTH}
    variants: ClassVar = {side: {"side": side} for side in _BOTH}

    def holds_reply(self, fault: Fault) -> bool:
        return True


class Duplicate(OfCall):
    """The callee executes the call twice."""

    name = "Duplicate"
    needs = ("site",)
    did = "{call} was executed twice"
    harm = 70
    gentle = True
    costs_no_time = True
    unfinished = "the call began again, and did not end"
    engine_sites: ClassVar = {TO_HERE: (None,)}
    variants: ClassVar = {"": {}}


class Crash(_Answered):
    """The callee is killed or exits, before or after it executes the call."""

    name = "Crash"
    needs = ("site", "when")
    may = (*OfCall.may, "how")
    did = "the plan ended {callee} {side} it executed {call}"
    harm = 110
    drawn: ClassVar = {"how": crash_ways.DRAWN}
    ends_process = True
    engine_sites: ClassVar = {TO_HERE: (None,)}
    variants: ClassVar = {when: {"when": when} for when in ("before", "after")}

    def had_effect(self, fault: Fault, seen: Seen) -> bool:
        return fault.how == "term" or super().had_effect(fault, seen)  # a handler may end its process in any way


class Order(OfCall):
    """Calls of several roles execute in a given order."""

    name = "Order"
    needs = ("site", "roles", "seconds")
    may = ("to", "nth", "every", "lives")
    did = "calls of {function} were executed in the plan's order"
    harm = 10
    gentle = True
    one_for_all = True
    engine_sites: ClassVar = {TO_HERE: (None,)}
    variants: ClassVar = {"": {}}
    least_callers = 2

    def as_fired(self, fault: Fault, nth: int, caller: str, life: str | None) -> dict[str, Any]:
        """Keep the callers: all of them make a call of this number."""
        return {"every": False, "nth": nth}

    def occurrences(
        self, site: str, calls: Called, values: Mapping[str, Any], turn: float
    ) -> Mapping[str, Mapping[str, Any]]:
        """Let callers execute in reverse: the opposite of the order in which they mostly call."""
        if len(calls.callers) == 1:
            raise PlanError(f"{next(iter(calls.callers))} alone calls it")
        if len(calls.callees) > 1:
            raise PlanError(f"it executes on several roles: {', '.join(calls.callees)}")
        numbers = {"first": 1, "last": min(calls.callers.values())}
        roles = tuple(reversed(list(calls.callers)))
        return {
            occurrence: {"roles": roles, "nth": nth, "seconds": turn}
            for occurrence, nth in numbers.items()
            if occurrence == "first" or nth > 1
        }


class Corrupt(OfCall):
    """A tensor of the request or of the reply is changed. `wrong` is the right verdict for a program that does not
    check its data."""

    name = "Corrupt"
    needs = ("site", "side", "change")
    did = "the {side} of {call} was changed"
    harm = 120
    asked = swept_if_named = "needs tensors, and a program that checks its data"
    changes_data = True
    engine_sites: ClassVar = {TO_HERE: ("reply",), BACKWARD: ("request",)}
    variants: ClassVar = {side: {"side": side, "change": "zeros"} for side in _BOTH}

    def seen_instead(self, details: Mapping[str, Any]) -> str:
        return f"nothing was changed: the tensor has these bits already ({details.get('old')})"


KINDS: tuple[OfCall, ...] = (Delay(), Hold(), Raise(), Drop(), Duplicate(), Crash(), Order(), Corrupt())
