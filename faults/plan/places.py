"""Name where and when a fault can act: sites of calls, and moments of roles."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from reference.system.text import OneLine, shown

__all__ = ["INTERNAL", "LAST", "ROLE", "SITE", "Moment", "PlanError", "name_of", "shown"]


class PlanError(OneLine, ValueError):
    """An impossible fault or plan. One line that names the field: what was got, what was wanted."""


# Calls that torch makes by itself, in the shutdown and for proxies, and those of `reference.world.shutdown` and of
# `faults.leaks.report`. A plan may name them; a sweep leaves them out.
INTERNAL = (
    "torch.distributed.rpc.",
    "reference.world.bounded_shutdown:",
    "faults.tracing.tracer:",
)


def name_of(function: Callable[..., object]) -> str:
    """Return the site of a function; for a callable object, the site of its class's ``__call__``."""
    if not hasattr(function, "__qualname__"):
        return f"{name_of(type(function))}.__call__"
    # A method of a class in C, such as `str.upper`, does not know its module; its class does.
    module = getattr(function, "__module__", None) or getattr(function, "__objclass__", object).__module__
    # A process that multiprocessing started knows the program's own file as `__mp_main__`.
    return f"{'__main__' if module == '__mp_main__' else module}:{function.__qualname__}"


# The names that torch allows for a worker.
ROLE = r"[A-Za-z0-9_:-]{1,127}"
# '<locals>' and '<lambda>' may be parts of a qualified name.
_DOTTED = r"[^\W\d]\w*(?:\.(?:[^\W\d]\w*|<\w+>))*"
SITE = rf"{_DOTTED}:{_DOTTED}"

# The events that the number of a step follows.
OF_STEPS = ("step", "writing", "written", "valid")
MOMENTS = (
    "'up@ROLE', 'step:N@ROLE', 'call:SITE#N@ROLE', "
    "'writing:N@ROLE', 'written:N@ROLE', 'valid:N@ROLE' or 'shutdown@ROLE'"
)
_FORM = re.compile(
    rf"(?:(?P<event>up|shutdown)|(?P<of_step>{'|'.join(OF_STEPS)}):(?P<step>[0-9]{{1,10}})"
    rf"|call:(?P<site>{SITE})#(?P<nth>[0-9]{{1,10}}))@(?P<role>{ROLE})"
)
LAST = 10**9


@dataclass(frozen=True)
class Moment:
    """A point in the run of one role, which comes once.

    ``up``: RPC has started; ``step``: the role logs a record with that ``step``; ``call``: before the role sends its
    nth call of a site; ``shutdown``: before `rpc.shutdown`. Of the checkpoint after step ``number``: ``writing``: the
    role's part is written, but does not have its name yet; ``written``: it has; ``valid``: the role has seen the parts
    of all roles, and made the checkpoint valid.
    """

    event: str
    role: str
    number: int = 0
    site: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read one of `MOMENTS`. Raises PlanError."""
        found = _FORM.fullmatch(text)
        if found is None:
            raise PlanError(f"'at' must be {MOMENTS}, got {shown(text)}")
        event = found["event"] or found["of_step"] or "call"
        number = int(found["step"] or found["nth"] or 0)
        if not found["event"] and not 1 <= number <= LAST:
            raise PlanError(f"'at' counts from 1 to {LAST}, got {shown(text)}")
        return cls(event, found["role"], number, found["site"] or "")

    def __str__(self) -> str:
        number = f":{self.number}" if self.event in OF_STEPS else ""
        call = f":{self.site}#{self.number}" if self.event == "call" else ""
        return f"{self.event}{number}{call}@{self.role}"
