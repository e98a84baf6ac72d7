"""Moments: points of a run that the run itself announces, so that a fault needs no clock."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

_FORM = re.compile(
    r"(?:(?P<event>up|shutdown)|step:(?P<step>\d+)|call:(?P<site>[A-Za-z_][\w.]*:[A-Za-z_][\w.<>]*)#(?P<nth>\d+))"
    r"@(?P<role>[A-Za-z0-9_:-]{1,127})"
)


class PlanError(ValueError):
    """A fault or plan that cannot be. One line that names the field: what was got, what was wanted."""


@dataclass(frozen=True)
class Moment:
    """``up``: RPC has started; ``step``: a log record with that ``step``; ``call``: before the nth call of a site is
    sent; ``shutdown``: before `rpc.shutdown`. Each of one role, and each comes once."""

    event: str
    role: str
    number: int = 0
    site: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """``up@ROLE``, ``step:N@ROLE``, ``call:MODULE:NAME#N@ROLE``, ``shutdown@ROLE``. Raises PlanError."""
        found = _FORM.fullmatch(text)
        if found is None:
            wanted = "'up@ROLE', 'step:N@ROLE', 'call:SITE#N@ROLE' or 'shutdown@ROLE'"
            raise PlanError(f"'at' must be {wanted}, got {text!r}")
        event = found["event"] or ("step" if found["step"] else "call")
        number = int(found["step"] or found["nth"] or 0)
        if event != "up" and event != "shutdown" and number < 1:
            raise PlanError(f"'at' counts from 1, got {text!r}")
        return cls(event, found["role"], number, found["site"] or "")

    def __str__(self) -> str:
        middle = {"step": f":{self.number}", "call": f":{self.site}#{self.number}"}.get(self.event, "")
        return f"{self.event}{middle}@{self.role}"
