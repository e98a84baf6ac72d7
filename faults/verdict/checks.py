"""The checks of a run: pure functions, each with one line that says what was seen and what was wanted.

A check holds, fails, or is unknown because the run's folder does not tell. If checks fail, the verdict is the gravest
of their defects. Otherwise the verdict is ``unknown``, ``equal`` (the trace is the twin's), ``returned`` (every role
returned, and there is no twin), ``detected`` (an error names the data that the plan corrupted) or ``clean error``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from faults.ledger.record import End, Run
from faults.verdict import failures, holdings, proof
from faults.verdict.detections import delivered, reported
from faults.verdict.time_bounds import lasting, slowest
from reference.system.printable import one_line

# Verdicts that are defects and never pass, the gravest first.
DEFECTS = ("hung", "wrong", "leaked", "not fired")

# Counts of `rpc.shutdown` that are no leak: messages about RRefs that torch awaits an answer to, or sends again later.
_PASSING = ("num_pending_futures",)

# All roles returned, although the plan had changed a tensor.
_UNSEEN = (
    "a corrupted tensor was delivered without any error or logged warning that names corrupted data: "
    "the folder does not tell whether the program repaired it or did not use it"
)

NOT_RECORDED = "not recorded"

# No fault fired and nothing was recorded. The program may not use RPC, or FAULTS_RUN may not have reached it.
NO_RPC = (
    "no RPC seen: no process called rpc.init_rpc, or FAULTS_RUN did not reach the process that did "
    "(python -I, -E or -S, sudo, another interpreter, or a process started with another environment, "
    "without this one's FAULTS_RUN and PYTHONPATH)"
)


@dataclass(frozen=True)
class Check:
    """The result of one check. ``holds``: None if unknown; ``verdict``: the run's defect if the check fails."""

    name: str
    verdict: str
    holds: bool | None
    text: str

    def __str__(self) -> str:
        mark = {True: "pass", False: "FAIL", None: "unknown"}[self.holds]
        return one_line(f"{mark:<7}  {self.name}: {self.text}")


def exit_status(passed: bool | None) -> int:
    """Return the exit status of a command: 0 pass, 1 fail, 3 unknown. (2 is bad input.)"""
    return {True: 0, False: 1, None: 3}[passed]


@dataclass(frozen=True)
class Judgement:
    """All checks of a run, and the verdict that follows from them."""

    checks: tuple[Check, ...]
    verdict: str

    @property
    def passed(self) -> bool | None:
        """Whether the run passed; None: unknown."""
        if self.verdict in DEFECTS:
            return False
        return None if self.verdict == "unknown" else True

    @property
    def status(self) -> int:
        return exit_status(self.passed)

    def __str__(self) -> str:
        return "\n".join([*map(str, self.checks), f"verdict: {self.verdict}"])


def judge(run: Run, *, without: str = "") -> Judgement:
    """Make every check, and derive the verdict. ``without``: the name of a check that is left out."""
    checks = tuple(found for check in CHECKS if (found := check(run)).name != without)
    failed = [check.verdict for check in checks if check.holds is False]
    if failed:
        return Judgement(checks, min(failed, key=DEFECTS.index))
    if any(check.holds is None for check in checks):
        return Judgement(checks, "unknown")
    if all(end.returned for end in run.ends.values()):
        return Judgement(checks, run.trace or "returned")
    return Judgement(checks, "detected" if failures.detected_by(run) else "clean error")


def ledgers_complete(run: Run) -> Check:
    """RPC was seen, and no role's ledger is missing or torn. Only the last line of a killed role may be torn."""
    found = [*([NO_RPC] if _unseen(run) else []), *_gaps(run)]
    events = f"{len(run.timeline.events)} events in {len(run.timeline.roles)} ledgers"
    return Check("record", "unknown", None if found else True, ", ".join([*found, *([] if found else [events])]))


def _unseen(run: Run) -> bool:
    """Whether ledgers were wanted, but none tells of a role that started RPC."""
    wanted = run.recorded or run.has_faults
    return wanted and not run.timeline.of("up") and not run.timeline.of("fired")


def _gaps(run: Run) -> list[str]:
    """Name the gaps in the ledgers and in the record."""
    killed = {role for role, end in run.ends.items() if end.kind in ("Killed", "Overdue", "Ended", "Stuck", "Running")}
    torn = [f"{role}: torn lines: {n}" for role, n in run.timeline.torn.items() if n > (1 if role in killed else 0)]
    wanted = run.recorded or run.has_faults
    played = [role for role in run.ends if wanted and not role.startswith("+")]
    peers = [role for event in run.timeline.of("up") for role in event.details.get("workers") or ()]
    absent = [f"{role}: no ledger" for role in dict.fromkeys([*played, *peers]) if role not in run.timeline.roles]
    twice = [f"{role}: one ledger of {count} runs" for role, count in _runs(run).items() if count > 1]
    missing = [] if run.complete else ["no run.json: the folder comes from `prepare`, or the launcher died"]
    return [*torn, *absent, *twice, *missing]


def _runs(run: Run) -> Counter[str]:
    """Count the runs in each role's ledger. In one run, a program may start a role several times, in any processes."""
    starts = run.timeline.of("start")
    if run.complete:
        return Counter({event.role: 2 for event in starts if event.time > run.seconds})
    return Counter(role for role, _ in {(event.role, event.details.get("pid")) for event in starts})


def ended(run: Run) -> Check:
    """Every role has an outcome by its deadline."""
    if not run.complete:
        return Check("ends", "hung", None, f"not recorded; according to the ledgers {_departures(run)}")
    if not run.ends:
        return Check("ends", "hung", None, "no role is recorded, wanted an outcome of every role")
    late = [role for role, end in run.ends.items() if end.kind == "Overdue"]
    running = [role for role, end in run.ends.items() if end.kind == "Running"]
    if late:
        besides = f" while {', '.join(running)} still ran" if running else ""
        text = f"{_lateness(run, late)}{besides}{_waiting(run)}, wanted an outcome of every role"
        return Check("ends", "hung", False, text)
    if running:  # the command was killed; otherwise `nothing_left` names these processes
        text = f"{', '.join(running)} still ran when the command had ended, and was not waited for"
        return Check("ends", "hung", None, f"{text}, wanted an outcome of every role")
    return Check("ends", "hung", True, "; ".join(f"{role} {_short(end)}" for role, end in run.ends.items()))


def _lateness(run: Run, late: Sequence[str]) -> str:
    """Name the roles that missed the deadline, and those given up before it, with the reason."""
    given_up = [role for role in late if not run.ends[role].text.startswith("was overdue")]
    missed = ", ".join(role for role in late if role not in given_up)
    found = [f"{missed} missed the deadline"] if missed else []
    return "; ".join([*found, *(f"{role} {_short(run.ends[role])}" for role in given_up)])


def _waiting(run: Run, most: int = 8) -> str:
    """Tell where the roles of an overdue script waited; of a script without roles, where its processes did."""
    roles = [name for name in run.waits if name.rpartition(" (process ")[0] in run.timeline.roles]
    named = [f"{name} waits at {run.waits[name]}" for name in roles or run.waits]
    more = [f"{len(named) - most} more"] if len(named) > most else []
    return "".join(f"; {each}" for each in (*named[:most], *more))


def _departures(run: Run) -> str:
    """Name the roles that have shut RPC down, and those that have not yet, for a run without a record."""
    left = [role for role in run.timeline.roles if any(each.role == role for each in run.timeline.of("left"))]
    others = [role for role in run.timeline.roles if role not in left]
    return f"these roles shut RPC down: {', '.join(left) or 'none'}; these did not: {', '.join(others) or 'none'}"


def ended_in_time(run: Run) -> Check:
    """After the first effect of a fault, all roles end within the bound plus the seconds that the faults last."""
    if not run.complete:
        return Check("bound", "hung", None, NOT_RECORDED)
    if all(end.returned for end in run.ends.values()):
        return Check("bound", "hung", True, "all roles returned")
    last = slowest(run)
    if last is None:
        silent = bool(run.plan.at("message"))
        text = "the first fault's time is unknown: no recorded call shows the message" if silent else "no fault fired"
        return Check("bound", "hung", None if silent else True, text)
    allowed, (role, seconds) = run.bound + lasting(run.plan), last
    since = "the last role or the first fault" if role == failures.COMMAND and run.lives else "the first fault"
    text = f"{role} was the last to end, {seconds:.1f} s after {since}, wanted at most {allowed:.1f}"
    other = "; --bound sets another bound" if run.limit and seconds > allowed else ""
    return Check("bound", "hung", seconds <= allowed, f"{text}: {run.limit}{other}" if run.limit else text)


def trace_equal(run: Run) -> Check:
    """A returned trace equals the twin's, or a program's results are what its user wanted: no run is silently wrong."""
    if not run.complete:
        return Check("trace", "wrong", None, NOT_RECORDED)
    if run.trace is None:
        unseen = delivered(run) and not reported(run) and all(end.returned for end in run.ends.values())
        text = f"no role returned one, and {_UNSEEN}" if unseen else "no role returned one"
        return Check("trace", "wrong", None if unseen else True, text)
    if run.trace == "equal" and delivered(run) and not reported(run):
        return Check("trace", "wrong", None, f"{run.difference}, although {_UNSEEN}, or the trace does not show it")
    holds = None if run.trace == "unknown" else run.trace == "equal"
    return Check("trace", "wrong", holds, run.difference or run.trace)


def errors_expected(run: Run) -> Check:
    """Every role that did not return was killed by the plan, or ended by an error that comes from the plan."""
    if not run.complete:
        return Check("errors", "wrong", None, NOT_RECORDED)
    found = failures.judged(run)
    wrong = [str(each) for each, holds in found if holds is False]
    if wrong:
        return Check("errors", "wrong", False, f"{'; '.join(wrong)}; wanted {failures.wanted(run)}")
    unclear = [str(each) for each, holds in found if holds is None]
    unclear += [f"{role} {end.text}" for role, end in run.ends.items() if end.returned and end.causes]
    text = f"{'; '.join(unclear)}: the ledgers do not tell whether that comes from the plan"
    return Check("errors", "wrong", None if unclear else True, text if unclear else "all expected" if found else "none")


def nothing_left(run: Run) -> Check:
    """No process and no shared memory is left; if all roles returned, no RRef and no autograd context either.

    torch frees what a program still holds when all roles shut down together, so a role that shut down alone is not
    counted. If RRefs were traced, what the roles held before that is judged, too (`holdings`).
    """
    if not run.complete:
        named, notes = holdings.of_timeline(run.timeline)
        return Check("left", "leaked", None, "; ".join([NOT_RECORDED, *named, *notes]))
    left = list(run.leaks)
    if run.ends and all(end.returned for end in run.ends.values()):
        rude = failures.ungraceful(run)
        for event in (each for each in run.timeline.of("left") if each.role not in rude):
            counts = [f"{name}={count}" for name, count in event.details.items() if count and name not in _PASSING]
            left += [f"{event.role}: {' '.join(counts)}"] if counts else []
        named, notes = holdings.of_timeline(run.timeline)
        left += named
        if not left and notes:
            return Check("left", "leaked", True, f"nothing for good; {'; '.join(notes)}")
    return Check("left", "leaked", not left, "; ".join(left) or "nothing")


def fired(run: Run) -> Check:
    """Every fault of the plan fired, as often as it says. Unknown if a lost ledger might tell."""
    return _by_ledgers("fired", run, *proof.fired(run))


def faults_effective(run: Run) -> Check:
    """Every fault that fired had its effect, if the ledgers can show one."""
    return _by_ledgers("effect", run, *proof.effective(run))


def _by_ledgers(name: str, run: Run, holds: bool | None, text: str) -> Check:
    """Make a check unknown instead of failed where ledgers are incomplete, or tell of no RPC."""
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
