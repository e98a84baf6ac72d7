"""The record of a run: everything in its folder that is needed to judge it, even later and elsewhere.

The folder has ``plan.json``, one ledger and one log per role, and ``run.json``, which is written last and holds facts
only: how the roles of a world, or a script's command, ended, what was left on the machine, what came of a comparison,
and how much the other files hold, so that the record knows when it is not whole.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from faults.ledger import ledger
from faults.ledger.ledger import SCHEMA, SUFFIX
from faults.plan.plan import Plan, PlanError
from reference.system import json_objects
from reference.system.files import Unusable, content_of
from reference.system.json_objects import json_object
from reference.system.text import OneLine, shown

PLAN = "plan.json"
# In a folder with this file the roles trace their RRefs and autograd contexts.
TRACE = ".faults-trace"


def read_plan(folder: str | os.PathLike[str]) -> Plan:
    """Read the plan of a run's folder. Raises PlanError: there is none, or it is not a plan."""
    path = Path(folder) / PLAN
    try:
        return Plan.from_json(content_of(path).decode())
    except OSError as error:
        raise PlanError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise PlanError(f"{path} cannot be read: it is not text") from error
    except PlanError as error:
        raise PlanError(f"{path}: {error}") from error


def is_traced(folder: str | os.PathLike[str]) -> bool:
    """Whether the roles of a run's folder trace their RRefs and autograd contexts."""
    return (Path(folder) / TRACE).exists()


RUN = "run.json"
# `RUN` until it is whole.
SCRATCH = f".{RUN}"

# Names the command's end, and the ledger of a script's processes that play no role, such as the one that starts the
# others.
COMMAND = "+command"

# The fields of `run.json`, and of each end in it.
_FORMS = json_objects.by_name(
    (json_objects.text, "name difference plan"),
    (json_objects.integer, "schema"),
    (json_objects.finite, "seconds start"),
    (json_objects.maybe(json_objects.number), "bound timeout"),
    (json_objects.truth, "recorded"),
    (json_objects.many(json_objects.text), "leaks"),
    (json_objects.many(json_objects.integer), "running"),
    (lambda value: value in (None, "equal", "wrong", "unknown"), "trace"),
    (json_objects.named(json_objects.mapping), "ends"),
    (json_objects.many(json_objects.mapping), "lost"),
    (json_objects.named(json_objects.text), "waits ledgers"),
    (json_objects.named(json_objects.integer), "statuses"),
    (json_objects.named(json_objects.finite), "gone"),
    (json_objects.named(json_objects.many(json_objects.real)), "losses"),
)
_END = json_objects.by_name(
    (json_objects.text, "kind text"),
    (json_objects.finite, "time"),
    (json_objects.integer, "process"),
    (json_objects.many(json_objects.text), "types"),
)
# What `write` adds, and `read` compares.
OWN = ("schema", "plan", "ledgers")


class RecordError(OneLine, ValueError):
    """A folder that holds no run. One line that says why."""


@dataclass(frozen=True)
class End:
    """How a role, or a script's command, ended.

    ``kind``: the outcome's class, or a kind of `faults.judge.facts`; ``types``: the names of an exception's classes,
    its own first; ``time``: seconds of the machine's monotonic clock; ``process``: 0 if unknown.
    """

    kind: str
    text: str
    time: float
    types: tuple[str, ...] = ()
    process: int = 0

    @property
    def returned(self) -> bool:
        return self.kind == "Returned"


@dataclass(frozen=True)
class Run:
    """One run.

    ``ends``: of the roles of a world; of a script its command's (`COMMAND`), because its ledgers tell the others;
    ``lost``: of roles of a world that was started again, by whose loss an earlier life of it ended;
    ``timeout``: seconds after which the roles of a world give up a wait; ``bound``: the user's own bound;
    ``start``: when it began, on the machine's monotonic clock, or when its first event happened, if nobody saw more;
    ``seconds``: how long it took from there;
    ``trace``: what came of a comparison of results: 'equal', 'wrong', 'unknown', or None; ``difference``: in words;
    ``statuses``: the exit status that a script's process left; ``gone``: those that ended without one, and the moment
    at which they were seen to end; ``running``: those that still ran when the command had ended and was waited for;
    ``waits``: where each process of an overdue script waited; ``losses``: the mean loss of each step of the 'run' and
    of its 'twin', if they were compared; ``recorded``: whether ledgers were wanted even for an
    empty plan; ``gaps``: what is missing in the folder, or is not as ``run.json`` says.
    """

    name: str
    plan: Plan
    timeline: ledger.Timeline
    ends: Mapping[str, End] = field(default_factory=dict)
    lost: Sequence[End] = ()
    bound: float | None = None
    timeout: float | None = None
    seconds: float = 0.0
    trace: str | None = None
    difference: str = ""
    leaks: Sequence[str] = ()
    start: float = 0.0
    complete: bool = True
    recorded: bool = False
    statuses: Mapping[int, int] = field(default_factory=dict)
    gone: Mapping[int, float] = field(default_factory=dict)
    running: Sequence[int] = ()
    waits: Mapping[str, str] = field(default_factory=dict)
    losses: Mapping[str, Sequence[float]] = field(default_factory=dict)
    gaps: Sequence[str] = ()

    @property
    def zero(self) -> float:
        """The moment from which events count, on the monotonic clock of the first role's machine; without any event the
        run's start."""
        return self.timeline.zero or self.start

    @property
    def has_faults(self) -> bool:
        return bool(self.plan.faults)

    @property
    def is_script(self) -> bool:
        return COMMAND in self.ends


def write(folder: Path, **values: Any) -> None:
    """Write ``run.json``, whole or not at all: all facts of `Run`, and digests of what the other files hold by now."""
    own = {"schema": SCHEMA, "plan": _digest(folder / PLAN), "ledgers": _digests(folder)}
    nothing = Run("", Plan(), ledger.Timeline((), {}, ()))
    told = {name: getattr(nothing, name) for name in _FORMS.keys() - own.keys()} | values
    scratch = folder / SCRATCH
    try:
        scratch.write_text(json.dumps({**own, **dict(sorted(told.items()))}, indent=1, default=asdict) + "\n")
    except OSError as error:  # of a full disk; it names no file
        raise Unusable(folder / RUN, error) from error
    scratch.replace(folder / RUN)


def read(folder: str | os.PathLike[str]) -> Run:
    """Read a run from its folder. Without ``run.json``, as after a launcher's death, it is not ``complete``.

    Raises:
        RecordError: there is no plan, or a file that no run of this schema wrote.
    """
    place = Path(folder)
    try:
        plan, timeline = read_plan(place), ledger.read(place)
        if not (place / RUN).exists():
            missing = "no run.json: the folder comes from `prepare`, or the launcher died"
            return Run(place.name, plan, timeline, complete=False, gaps=(missing,))
        values = _run(json_object(content_of(place / RUN), "it"))
        own = {name: values.pop(name) for name in OWN}
        ends = {role: _end(end) for role, end in values.pop("ends").items()}
        values["lost"] = tuple(map(_end, values["lost"]))
        for name in ("statuses", "gone"):
            values[name] = {int(process): value for process, value in values[name].items()}
        return Run(plan=plan, timeline=timeline, ends=ends, gaps=tuple(_gaps(place, own)), **values)
    except (PlanError, OSError) as error:
        raise RecordError(f"{place} is not a run's folder: {error}") from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise RecordError(f"{place / RUN} is not a run: {type(error).__name__}: {error}") from error


def _run(values: dict[str, Any]) -> dict[str, Any]:
    """Check the content of ``run.json``. Raises ValueError: `write` does not write such a value."""
    if values.get("schema") != SCHEMA:
        raise ValueError(f"it is of schema {shown(values.get('schema', 1))}: wanted {SCHEMA}")
    values = {"losses": {}, "lost": [], **values}  # a run of an earlier version has none
    json_objects.check_all(values, _FORMS)
    return values


def _end(values: dict[str, Any]) -> End:
    json_objects.check_all(values, _END)
    return End(**{**values, "types": tuple(values["types"])})


def _digest(file: Path) -> str:
    return hashlib.sha256(content_of(file, ledger.LONGEST)).hexdigest()[:32]


def _digests(folder: Path) -> dict[str, str]:
    """Return the digest of each ledger, by its role."""
    return {path.stem: _digest(path) for path in sorted(folder.glob(f"*{SUFFIX}"))}


def _gaps(folder: Path, own: Mapping[str, Any]) -> Iterator[str]:
    """Name the files that are not as they were when ``run.json`` was written."""
    if own["plan"] != _digest(folder / PLAN):
        yield f"{PLAN} is not the plan of this run"
    wanted, found = own["ledgers"], _digests(folder)
    for role in sorted(wanted.keys() | found.keys()):
        if wanted.get(role) != found.get(role):
            how = (
                "missing" if role not in found else "of another run" if role not in wanted else "not as the run left it"
            )
            yield f"{role}{SUFFIX} is {how}"
