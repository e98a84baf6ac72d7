"""The phases of a role, from its start to its end, as its launcher knows them."""

from __future__ import annotations

import enum


class Phase(enum.StrEnum):
    """The phases up to `FINISHED` are reported by the role itself; its launcher sets the others."""

    STARTING = enum.auto()  # the process imports the launching script
    JOINING = enum.auto()  # the role starts RPC
    RUNNING = enum.auto()  # the role plays its function
    FINISHED = enum.auto()  # the function has returned, and only the common shutdown is left
    TOLD = enum.auto()  # the role was told that another role is lost
    SILENT = enum.auto()  # the role's pipe is closed: it reports nothing more
    GIVEN_UP = enum.auto()  # the role is ended before its deadline
    ENDED = enum.auto()


# The phases in which a role can only wait for others.
WAITING = (Phase.STARTING, Phase.JOINING, Phase.FINISHED, Phase.TOLD)
