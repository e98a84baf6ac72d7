"""What must always hold: pure functions over a run, each with one line that says what was seen and what was wanted.

A check *holds*, does *not*, or is *unknown* when the run's folder does not tell. The first check that does not hold
names the verdict: a defect. Otherwise a run is ``equal`` (its trace is the twin's), ``returned`` (every role returned,
and there is no twin) or a ``clean error``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from faults.ledger.record import End, Run
from faults.verdict import failures, proof
from faults.verdict.time_bounds import lasting, slowest
from reference.system.printable import one_line

# Verdicts that are defects, and never pass.
DEFECTS = ("hung", "wrong", "leaked", "not fired")

# Of what is left: messages about RRefs that torch has sent and not heard of, or sends again by itself after a pause.
_PASSING = ("num_pending_futures",)

NOT_RECORDED = "not recorded"

# Nothing was hurt or written down, and nobody can tell whether the program does without RPC or was not reached.
NO_RPC = (
    "no RPC seen: nobody called rpc.init_rpc, or FAULTS_RUN did not reach who did "
    "(python -I, -E or -S, sudo, another interpreter, a process that is started with an environment of its own, "
    "without FAULTS_RUN and PYTHONPATH of this one)"
)


@dataclass(frozen=True)
class Check:
    """``holds``: None where it is unknown. ``verdict``: what the run is if it does not hold."""

    name: str
    verdict: str
    holds: bool | None
    text: str

    def __str__(self) -> str:
        mark = {True: "pass", False: "FAIL", None: "unknown"}[self.holds]
        return one_line(f"{mark:<7}  {self.name}: {self.text}")


@dataclass(frozen=True)
class Judgement:
    """All checks of a run, and what they come to."""

    checks: tuple[Check, ...]
    verdict: str

    @property
    def passed(self) -> bool | None:
        """None: unknown."""
        if self.verdict in DEFECTS:
            return False
        return None if self.verdict == "unknown" else True

    @property
    def status(self) -> int:
        """The exit status: 0 pass, 1 fail, 2 unknown."""
        return {True: 0, False: 1, None: 2}[self.passed]

    def __str__(self) -> str:
        return "\n".join([*map(str, self.checks), f"verdict: {self.verdict}"])


def judge(run: Run) -> Judgement:
    """Every check, and the verdict."""
    checks = tuple(check(run) for check in CHECKS)
    failed = [check.verdict for check in checks if check.holds is False]
    if failed:
        return Judgement(checks, min(failed, key=DEFECTS.index))
    if any(check.holds is None for check in checks):
        return Judgement(checks, "unknown")
    if all(end.returned for end in run.ends.values()):
        return Judgement(checks, run.trace or "returned")
    return Judgement(checks, "clean error")


def ledgers_complete(run: Run) -> Check:
    """RPC was seen, and everything was written down: nobody's ledger is missing or torn, but for the last line of who
    was killed."""
    found = [*([NO_RPC] if _unseen(run) else []), *_gaps(run)]
    events = f"{len(run.timeline.events)} events of {len(run.timeline.roles)} ledgers"
    return Check("record", "unknown", None if found else True, ", ".join([*found, *([] if found else [events])]))


def _unseen(run: Run) -> bool:
    """Whether ledgers were to be written, and tell of no role that started RPC."""
    wanted = run.recorded or run.hurt
    return wanted and not run.timeline.of("up") and not run.timeline.of("fired")


def _gaps(run: Run) -> list[str]:
    """What is missing of the ledgers, and of the record."""
    killed = {role for role, end in run.ends.items() if end.kind in ("Killed", "Overdue", "Ended", "Stuck", "Running")}
    torn = [f"{role}: {n} torn" for role, n in run.timeline.torn.items() if n > (1 if role in killed else 0)]
    wanted = run.recorded or run.hurt
    played = [role for role in run.ends if wanted and not role.startswith("+")]
    peers = [role for event in run.timeline.of("up") for role in event.details.get("workers") or ()]
    absent = [f"{role}: none" for role in dict.fromkeys([*played, *peers]) if role not in run.timeline.roles]
    twice = [f"{role}: of {count} runs" for role, count in _runs(run).items() if count > 1]
    missing = [] if run.complete else ["no run.json, as after `prepare`, or where the launcher died"]
    return [*torn, *absent, *twice, *missing]


def _runs(run: Run) -> Counter[str]:
    """How many runs each role's ledger is of. One program may play a role several times, in one process or in many."""
    starts = run.timeline.of("start")
    if run.complete:
        return Counter({event.role: 2 for event in starts if event.time > run.seconds})
    return Counter(role for role, _ in {(event.role, event.details.get("pid")) for event in starts})


def ended(run: Run) -> Check:
    """Every role has an outcome by its deadline."""
    if not run.complete:
        return Check("ends", "hung", None, f"not recorded; by the ledgers {_departures(run)}")
    if not run.ends:
        return Check("ends", "hung", None, "of no role, wanted an outcome of every role")
    late = [role for role, end in run.ends.items() if end.kind == "Overdue"]
    running = [role for role, end in run.ends.items() if end.kind == "Running"]
    if late:
        besides = f" while {', '.join(running)} still ran" if running else ""
        return Check("ends", "hung", False, f"{_lateness(run, late)}{besides}, wanted an outcome of every role")
    if running:  # after a command that was killed, or they are also left
        text = f"{', '.join(running)} still ran when the command had ended, and nobody waited longer"
        return Check("ends", "hung", None, f"{text}, wanted an outcome of every role")
    return Check("ends", "hung", True, "; ".join(f"{role} {_short(end)}" for role, end in run.ends.items()))


def _lateness(run: Run, late: Sequence[str]) -> str:
    """Who missed the deadline, and who was given up before it, and why."""
    given_up = [role for role in late if not run.ends[role].text.startswith("was overdue")]
    missed = ", ".join(role for role in late if role not in given_up)
    found = [f"{missed} missed the deadline"] if missed else []
    return "; ".join([*found, *(f"{role} {_short(run.ends[role])}" for role in given_up)])


def _departures(run: Run) -> str:
    """Who has shut RPC down, and who has not, or not yet: what the ledgers tell of a run that nobody recorded."""
    left = [role for role in run.timeline.roles if any(each.role == role for each in run.timeline.of("left"))]
    others = [role for role in run.timeline.roles if role not in left]
    return f"{', '.join(left) or 'nobody'} shut RPC down, {', '.join(others) or 'nobody'} did not"


def ended_in_time(run: Run) -> Check:
    """Once a fault has bitten, all roles end within the bound, and what the faults themselves last."""
    if not run.complete:
        return Check("bound", "hung", None, NOT_RECORDED)
    if all(end.returned for end in run.ends.values()):
        return Check("bound", "hung", True, "all returned")
    last = slowest(run)
    if last is None:
        silent = bool(run.plan.at("message"))
        text = "from when on is not known: no call shows the message" if silent else "nothing was lost"
        return Check("bound", "hung", None if silent else True, text)
    allowed, (role, seconds) = run.bound + lasting(run.plan), last
    since = "the last role or the first fault" if role == failures.COMMAND and run.lives else "the first fault"
    text = f"{role} was the last to end, {seconds:.1f} s after {since}, wanted at most {allowed:.1f}"
    other = "; --bound sets another" if run.limit and seconds > allowed else ""
    return Check("bound", "hung", seconds <= allowed, f"{text}: {run.limit}{other}" if run.limit else text)


def trace_equal(run: Run) -> Check:
    """Never silently wrong: a trace that is returned is the twin's."""
    if not run.complete:
        return Check("trace", "wrong", None, NOT_RECORDED)
    if run.trace is None:
        return Check("trace", "wrong", True, "none was returned")
    holds = None if run.trace == "unknown" else run.trace == "equal"
    return Check("trace", "wrong", holds, f"{run.difference}, wanted the twin's")


def errors_expected(run: Run) -> Check:
    """Who did not return was killed by the plan, or ended by an error that comes from the plan."""
    if not run.complete:
        return Check("errors", "wrong", None, NOT_RECORDED)
    found = failures.judged(run)
    wrong = [str(each) for each, holds in found if holds is False]
    if wrong:
        return Check("errors", "wrong", False, f"{'; '.join(wrong)}; wanted {failures.wanted(run)}")
    unclear = [str(each) for each, holds in found if holds is None]
    unclear += [f"{role} {end.text}" for role, end in run.ends.items() if end.returned and end.causes]
    text = f"{'; '.join(unclear)}: the ledgers do not tell whether that comes from the plan"
    return Check("errors", "wrong", None if unclear else True, text if unclear else "as they may be")


def nothing_left(run: Run) -> Check:
    """No process, shared memory; and where all returned, no RRef and no autograd context on any owner: none that torch
    could not free when all shut down together, which it does with what the program still holds."""
    if not run.complete:
        return Check("left", "leaked", None, NOT_RECORDED)
    left = list(run.leaks)
    if run.ends and all(end.returned for end in run.ends.values()):
        rude = failures.ungraceful(run)
        for event in (each for each in run.timeline.of("left") if each.role not in rude):
            counts = [f"{name}={count}" for name, count in event.details.items() if count and name not in _PASSING]
            left += [f"{event.role}: {' '.join(counts)}"] if counts else []
    return Check("left", "leaked", not left, "; ".join(left) or "nothing")


def fired(run: Run) -> Check:
    """Every fault of the plan fired, as often as it says. Unknown where a ledger is lost that might tell."""
    return _by_ledgers("fired", run, *proof.fired(run))


def faults_effective(run: Run) -> Check:
    """What fired had its effect, where that can be seen."""
    return _by_ledgers("effect", run, *proof.bitten(run))


def _by_ledgers(name: str, run: Run, holds: bool | None, text: str) -> Check:
    """What is missing in ledgers that are not whole, or that tell of no RPC, is unknown, not absent."""
    lost = run.complete and bool(_gaps(run) or _unseen(run))
    return Check(name, "not fired", None if lost and holds is False else holds, text)


def _short(end: End) -> str:
    return end.text if len(end.text) < 120 else f"{end.text[:117]}..."


CHECKS: tuple[Callable[[Run], Check], ...] = (
    ledgers_complete,
    ended,
    ended_in_time,
    trace_equal,
    errors_expected,
    nothing_left,
    fired,
    faults_effective,
)
