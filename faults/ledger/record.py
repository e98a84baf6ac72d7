"""The record of a run: everything in its folder that is needed to judge it, even later and elsewhere.

The folder has ``plan.json``, one ledger and one log per role, and ``run.json``, which is written last: how and when
every role ended, the judgement of the trace, what was left on the machine, and the bound within which survivors had to
end.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from faults.ledger import file_schema, ledger
from faults.ledger.plan_file import read_plan
from faults.plan.plan import Plan, PlanError
from faults.tracebacks.error_chain import Piece, from_json
from reference.system.plain_file import content_of
from reference.system.printable import OneLine, shown

RUN = "run.json"
# `RUN` until it is whole.
SCRATCH = f".{RUN}"

# The fields of `run.json`, and of each end in it.
_FORMS = file_schema.by_name(
    (file_schema.text, "name difference limit"),
    (file_schema.finite, "seconds start"),
    (file_schema.number, "bound"),
    (file_schema.truth, "recorded"),
    (file_schema.many(file_schema.text), "leaks"),
    (lambda value: value in (None, "equal", "wrong", "unknown"), "trace"),
    (file_schema.named(file_schema.mapping), "ends"),
    (file_schema.named(file_schema.many(file_schema.mapping)), "lives"),
    (file_schema.named(file_schema.text), "waits"),
)
_END = file_schema.by_name(
    (file_schema.text, "kind text"),
    (file_schema.finite, "time"),
    (file_schema.integer, "process"),
    (file_schema.many(file_schema.text), "bases"),
    (file_schema.causes, "causes"),
)


class RecordError(OneLine, ValueError):
    """A folder that holds no run. One line that says why."""


@dataclass(frozen=True)
class End:
    """How a role ended.

    ``kind``: the outcome's class, or a kind of `script_outcomes`; ``bases``: an exception's types, its own first;
    ``causes``: what it derives from, itself first; ``time``: seconds of the machine's monotonic clock; ``process``: the
    process of a script's role, otherwise 0.
    """

    kind: str
    text: str
    time: float
    bases: tuple[str, ...] = ()
    causes: tuple[Piece, ...] = ()
    process: int = 0

    @property
    def returned(self) -> bool:
        return self.kind == "Returned"


@dataclass(frozen=True)
class Run:
    """One run.

    ``trace``: 'equal', 'wrong', 'unknown', or None if no role returned one; ``difference``: the same in words;
    ``limit``: how the bound is computed, in words; ``lives``: for a script, the ends of all lives of each role;
    ``recorded``: whether ledgers were wanted even for an empty plan; ``waits``: where each process of an overdue script
    waited.
    """

    name: str
    plan: Plan
    timeline: ledger.Timeline
    ends: Mapping[str, End] = field(default_factory=dict)
    bound: float = 0.0
    seconds: float = 0.0
    trace: str | None = None
    difference: str = ""
    leaks: Sequence[str] = ()
    start: float = 0.0
    complete: bool = True
    recorded: bool = False
    limit: str = ""
    lives: Mapping[str, Sequence[End]] = field(default_factory=dict)
    waits: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_faults(self) -> bool:
        return bool(self.plan.faults)


def write(folder: Path, **values: Any) -> None:
    """Write ``run.json``, whole or not at all: all fields of `Run` except plan and timeline."""
    scratch = folder / SCRATCH
    scratch.write_text(json.dumps(values, indent=1, default=asdict) + "\n")
    scratch.replace(folder / RUN)


def read(folder: str | os.PathLike[str]) -> Run:
    """Read a run from its folder. Without ``run.json``, as after a launcher's death, it is not ``complete``.

    Raises:
        RecordError: there is no plan, or a file that no run wrote.
    """
    place = Path(folder)
    try:
        plan, timeline = read_plan(place), ledger.read(place)
        if not (place / RUN).exists():
            return Run(place.name, plan, timeline, complete=False)
        values = _run(json.loads(content_of(place / RUN)))
        ends = {role: _end(end) for role, end in values.pop("ends").items()}
        lives = {role: [_end(end) for end in each] for role, each in values.pop("lives", {}).items()}
        return Run(plan=plan, timeline=timeline, ends=ends, lives=lives, **values)
    except (PlanError, OSError) as error:
        raise RecordError(f"{place} is not a run's folder: {error}") from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise RecordError(f"{place / RUN} is not a run: {type(error).__name__}: {error}") from error


def _run(values: Any) -> dict[str, Any]:
    """Check the content of ``run.json``. Raises ValueError: `write` does not write such a value."""
    if not isinstance(values, dict):
        raise ValueError(f"wanted an object, got {shown(values)}")
    file_schema.check(values, _FORMS)
    strange = next((name for name in values if name not in _FORMS), None)
    if strange is not None:
        raise ValueError(f"unknown field {shown(strange)}")
    return values


def _end(values: dict[str, Any]) -> End:
    file_schema.check(values, _END)
    causes = tuple(from_json(values.get("causes")))
    return End(**{**values, "bases": tuple(values["bases"]), "causes": causes})
