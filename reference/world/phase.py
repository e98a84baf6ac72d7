"""The phases of a role, from its start to its end, as its launcher knows them."""

from __future__ import annotations

import enum


class Phase(enum.StrEnum):
    """A role reports the phases up to `FINISHED` itself; its launcher sets the others."""

    STARTING = enum.auto()  # the process imports the launching script
    JOINING = enum.auto()  # it starts RPC
    RUNNING = enum.auto()  # it plays its function
    FINISHED = enum.auto()  # the function has returned, and only the common shutdown is left
    TOLD = enum.auto()  # it was told that another role is lost
    SILENT = enum.auto()  # its pipe is closed: it reports nothing more
    GIVEN_UP = enum.auto()  # it is ended before the deadline
    ENDED = enum.auto()


# The phases in which a role only waits for others.
WAITING = (Phase.STARTING, Phase.JOINING, Phase.FINISHED, Phase.TOLD)
