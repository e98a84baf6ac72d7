"""The matrix: every tutorial under every kind of fault at every place, one run per cell (tests/matrix/test_matrix.py).

places.py says which call each fault hits, verdicts.py which verdict the run must have. ``python -m
tests.matrix.matrix`` prints docs/matrix.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from reference import TUTORIALS
from tests.matrix.places import KINDS, PLACES, plan_of
from tests.matrix.verdicts import AS_PUBLISHED, EQUAL, ERROR, GONE, KILLED, NEEDLESS, PATIENT, VERDICTS, WRONG, Expected

PAGE = Path(__file__).parents[2] / "docs" / "matrix.md"


@dataclass(frozen=True)
class Cell:
    """One run. ``place``: the place of its fault; ``kind``: the row of the page, or the mixture."""

    tutorial: str
    place: str
    kind: str
    plan: str
    expected: Expected

    @property
    def name(self) -> str:
        return f"{self.tutorial}-{self.kind.replace(' ', '-')}"

    @property
    def needs_network(self) -> bool:
        return self.place == "network" or "Partition" in self.plan

    @property
    def needs_netem(self) -> bool:
        return "latency_ms" in self.plan


def cells() -> Iterator[Cell]:
    """Return the cells that are run."""
    for place, kinds in KINDS.items():
        for tutorial, row in VERDICTS.items():
            for kind in kinds:
                expected = row[kind]
                if expected.verdict:
                    yield Cell(tutorial, place, kind, plan_of(tutorial, kind), expected)
    for tutorial, kind, plan, expected in MIXED:
        yield Cell(tutorial, "mixed", kind, plan, expected)


def _both(
    tutorial: str, first: str, second: str, expected: Expected, of: str = "", **replaced: str
) -> tuple[str, str, str, Expected]:
    """Join two cells' plans. ``replaced``: fields of the second one that differ from its cell's."""
    fields = dict(word.partition("=")[::2] for word in plan_of(tutorial, second).split()) | replaced
    words = [name + f"={value}" * bool(value) for name, value in fields.items()]
    plan = f"{plan_of(tutorial, first)}; {' '.join(words)}"
    return tutorial, f"{first} + {second}{of}", plan, expected


_BATCH, _FINE = "batch_parameter_server", Expected(EQUAL, timeout=PATIENT)
_NEXT_ROUND = (
    "a report does not say for which round it is: the second execution of a round's last one counts for the next"
)
_INVENTED = f"{AS_PUBLISHED}: the agent learns from a step that no observer has made"

# Tutorial, mixture, plan, expected verdict.
MIXED: tuple[tuple[str, str, str, Expected], ...] = (
    _both(_BATCH, "Duplicate", "Delay reply", _FINE, role="trainer2"),
    (
        _BATCH,
        "Order + Duplicate",
        f"{plan_of(_BATCH, 'Order')}; {plan_of(_BATCH, 'Duplicate')}".replace("nth=2", "nth=1"),
        Expected(NEEDLESS, {"ps": r"RoundFailed: .*trainer1 reports (twice|after the last of 2 rounds)"}, _NEXT_ROUND),
    ),
    _both(
        # One of them alone makes two lists of unequal length, which fails.
        *("reinforce", "Duplicate", "Duplicate"),
        Expected(WRONG, reason=_INVENTED, timeout=PATIENT, trace="integers differ"),
        of=" of the reward",
        site="reference.reinforce:Agent.report_reward",
    ),
    _both("rnn", "Pause at call", "Delay reply", _FINE),
    _both("pipeline", "Delay request", "Partition healed", _FINE),
    _both(
        *("parameter_server", "Duplicate", "Crash before"),
        Expected(ERROR, {"ps": KILLED, "worker1": GONE}),
        nth="3",
    ),
)

_ABOUT = """# The matrix

Each tutorial under each kind of fault, as `tests/matrix/test_matrix.py` runs it: one cell, one run, and this verdict.
`python -m tests.matrix.matrix` prints this page. [faults.md](faults.md) describes the kinds.

| sign | the run's verdict |
|---|---|
| = | `equal`: all roles return, and the trace is the twin's |
| E | `failed loudly`: the run ends within the bound, an error names what was lost, and no other trace is returned |
| N | `needless failure`: the run fails although the fault loses nothing (reason below) |
| W | `wrong`: the run ends with another trace (reason below) |
| - | there is no such cell; the reason is below |

- In each column the fault hits the call that carries the tutorial's gradients, parameters or actions, once it trains
  (`tests/matrix/places.py`; the last table shows them).
- *Crash before* and *Crash after* kill the callee, and so does *Crash at step*. *Crash at call* kills the caller.
- *Pause at call* stops the callee, *Pause at step* the caller. *Hold* holds the callee's GIL when the call arrives.
- *Duplicate* hits `batch_reinforce` in the last step, and the batch and sharded servers in the last round. As published
  their calls do not say for which step or round they are: in an earlier one a second execution of the last call counts
  for the next step, and the run fails then or later. torch itself never duplicates a call.
- *Corrupt* changes a tensor of the message that the last table names; `wrong` is then the right answer.
- *to_here* and *backward* are a fetch of an RRef's value, and a gradient of distributed autograd.
- Partitions are between caller and callee, one way, and last until the end; *healed* is both ways, for 0.2 s.
- *Slow* limits the callee's rate. *Slow latency* delays its packets by 10 to 30 ms; where the kernel has no netem,
  those cells are skipped.
"""


def page() -> str:
    """Write docs/matrix.md."""
    kinds = [
        (_PLACES[place], kind, *(_sign(VERDICTS[name][kind]) for name in TUTORIALS))
        for place, kinds in KINDS.items()
        for kind in kinds
    ]
    mixed = [(name, kind, _sign(expected), expected.reason) for name, kind, _, expected in MIXED]
    where = [(name, f"`{at.site}`", at.caller, str(at.nth), at.callee, _corrupted(name)) for name, at in PLACES.items()]
    tables = (
        _ABOUT.rstrip(),
        _table("Cells", ("of", "fault", *TUTORIALS), kinds),
        _table("Two at once", ("tutorial", "faults", "", "why"), mixed),
        _table("Reasons", ("cells", "why"), _reasons()),
        _table("Where", ("tutorial", "call", "by", "number", "executed by", "what Corrupt changes"), where),
    )
    return "\n\n".join(tables) + "\n"


def _corrupted(name: str) -> str:
    """Show the plan of a tutorial's `Corrupt`."""
    return f"`{plan_of(name, 'Corrupt')}`" if PLACES[name].tensors else "-"


_PLACES = {
    "call": "a call",
    "engine": "what torch sends by itself",
    "message": "a message",
    "process": "a process",
    "network": "the network",
}


def _table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    return "\n".join([f"## {title}\n", lines[0], f"|{'---|' * len(head)}", *lines[1:]])


def _sign(expected: Expected) -> str:
    return {EQUAL: "=", ERROR: "E", WRONG: "W", NEEDLESS: "N", "": "-"}[expected.verdict]


def _reasons() -> Iterator[tuple[str, str]]:
    """Yield the cells that are empty or differ from their row, with the reason."""
    found: dict[str, dict[str, list[str]]] = {}
    for name in TUTORIALS:
        for kind, expected in VERDICTS[name].items():
            if expected.reason:
                found.setdefault(expected.reason, {}).setdefault(kind, []).append(name)
    for reason, names_of in found.items():
        kinds_of: dict[str, list[str]] = {}
        for kind, names in names_of.items():
            kinds_of.setdefault(", ".join(names), []).append(kind)
        yield "; ".join(f"*{', '.join(kinds)}* of {names}" for names, kinds in kinds_of.items()), reason


if __name__ == "__main__":
    print(page(), end="")
