"""Remembers who made and who holds each RRef and each autograd context of this process."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from faults.tracing.tracer import Tracer

# What torch calls in a graceful shutdown when all roles have ended their work: it frees the RRefs that they still hold.
RELEASE = "_delete_all_user_and_unforked_owner_rrefs"


def current_tracer() -> Tracer | None:
    """Return this process's tracer. A process that does not trace has not imported its module, and need not."""
    module = sys.modules.get("faults.tracing.tracer")
    return None if module is None else module.Tracer.current
